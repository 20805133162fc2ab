"""The changes of a batch, among all changes of its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.marts.bitemporal import known_times
from frazil.marts.fold_spec import with_event_time
from frazil.older_spark import to_arrow
from frazil.silver.batches import batches, other_batches
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from frazil.marts.fold_spec import FoldSpec
    from frazil.runner.batch.driver_batch import DriverBatch
    from frazil.runner.batch.frame_cache import FrameCache


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChanges:
    """Batches ``after < batch <= upto`` of a silver table. All rows come with their event time.

    Attributes:
        spark: the session that reads them.
        silver, bronze: quoted names of the table, and of the one with its records.
        files: number of its data files.
        after, upto: which batches.
        driver_batch: the batch's rows, where they are in the driver's memory.
        find_deletes: returns the deletes of some keys with further columns, as
            :func:`frazil.runner.batch.driver_lookup.find_deletes`.
        find_all: returns all changes of some keys likewise, as :func:`frazil.runner.batch.driver_lookup.find_changes`.
        cache: what the marts of the table share.
        is_shared: several marts take the batch.
    """

    spark: SparkSession
    silver: str
    bronze: str
    files: int
    after: int
    upto: int
    driver_batch: DriverBatch | None
    find_deletes: Callable[[pa.Table, Sequence[str], Mapping[str, pa.Scalar]], pa.Table | None]
    find_all: Callable[[pa.Table, Sequence[str]], pa.Table | None]
    cache: FrameCache
    is_shared: bool

    def all(self, spec: FoldSpec) -> DataFrame:
        """Return all changes of the table."""
        return with_event_time(self.spark.table(self.silver), spec)

    def new(self, spec: FoldSpec) -> DataFrame:
        """Return the changes of the batch."""
        span, driver_batch = (self.after, self.upto), self.driver_batch
        if driver_batch is None:
            return self.cache.keep(("new", *span), lambda: batches(self.all(spec), *span))
        return with_event_time(self.cache.share(("new", *span), lambda: driver_batch.frame(self.spark)), spec)

    def new_keys(self, spec: FoldSpec) -> DataFrame:
        """Return the keys of the batch's changes, with repeats."""
        if self.driver_batch is None:
            return self.new(spec).select(*map(quote, spec.keys))
        return self.driver_batch.frame(self.spark, spec.keys)

    def in_memory(self, spec: FoldSpec) -> pa.Table:
        """Bring the changes of the batch to the driver, without event time.

        Cost: a Spark job, unless they are there.
        """
        if self.driver_batch is not None:
            return self.driver_batch.rows
        names = (*spec.columns, r.CLASS, r.POSITION, r.ROW, r.BATCH, r.KNOWN, r.SOURCE_TIME)
        return to_arrow(self.new(spec).select(*map(quote, names)))

    def known_times(self) -> DataFrame:
        """Return when each batch was known, see :func:`frazil.marts.bitemporal.known_times`.

        Cost: a scan of the ledger and of corrected records.
        """
        kinds = f"{r.KIND} IN ({literal(r.LEDGER_ROW)}, {literal(r.CORRECTED)})"
        return known_times(self.spark.table(self.bronze).where(kinds))

    def earlier_deletes(self, spec: FoldSpec, condition: str) -> DataFrame:
        """Return the deletes of other batches that fulfil a SQL condition."""
        earlier = other_batches(self.all(spec), self.after, self.upto)
        return earlier.where(f"{r.CLASS} = '{r.DELETE}' AND {condition}")
