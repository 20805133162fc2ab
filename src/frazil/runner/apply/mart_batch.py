"""What a backend takes and gives: one batch with the mart that it is applied to, and the delta of that mart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from frazil.bronze import record as r
from frazil.lake.row_lookup import AT_FILE, AT_POS
from frazil.marts import late
from frazil.marts.bitemporal import known_times
from frazil.marts.fold import fill_from
from frazil.marts.layout import EVENT_TIME, with_event_time
from frazil.older_spark import to_arrow
from frazil.silver.changes import other_batches, rows_of_batches
from frazil.spec import History
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from frazil.marts.layout import FoldSpec
    from frazil.plan.policy import Policy
    from frazil.runner.batch.batch_stats import BatchStats
    from frazil.runner.batch.driver_batch import DriverBatch
    from frazil.runner.table_run import FrameCache
    from frazil.spec import Current
    from frazil.steps import NeedsSpark, SparkReason


class FindRows(Protocol):
    """Finds rows of a mart on the driver."""

    def __call__(self, values: pa.Table, also: Sequence[str], flag: str | None = None) -> pa.Table | NeedsSpark:
        """Return the rows, or why Spark must find them."""
        ...


@dataclass(frozen=True, kw_only=True)
class MartTarget:
    """A mart that has rows.

    Attributes:
        name: name of the mart.
        mart, spec: its declaration, and key, order and value columns of the table.
        read: returns its current rows with event time, ``_cdc_at_file`` and ``_cdc_at_pos``. It reads ``main``, because
            the branch loses rows before the new ones are computed.
        rows: approximate number of rows.
        find: returns the rows of some keys with further columns, as :func:`frazil.lake.row_lookup.find_rows` does. With
            a flag, only rows that have it.
    """

    name: str
    mart: Current | History
    spec: FoldSpec
    read: Callable[[], DataFrame]
    rows: int
    find: FindRows

    @cached_property
    def table(self) -> DataFrame:
        """Result of ``read``."""
        return self.read()


@dataclass(frozen=True, kw_only=True)
class MartBatch:
    """One batch and the mart that it is applied to; each DataFrame is created on first use.

    Attributes:
        target: the mart.
        changes: the batch's changes, with access to all changes of the table.
        stats: statistics of the batch.
        policy: thresholds.
        by_spark: why Spark computes the batch, or a part of it, in place of the driver; backends add to it.
    """

    target: MartTarget
    changes: BatchChanges
    stats: BatchStats
    policy: Policy
    by_spark: list[SparkReason] = field(default_factory=list)

    @property
    def mart(self) -> Current | History:
        """The mart's declaration."""
        return self.target.mart

    @property
    def spec(self) -> FoldSpec:
        """The table's parts."""
        return self.target.spec

    @property
    def by_order(self) -> bool:
        """Whether the order alone decides lateness; a history also compares event times."""
        return self.spec.times_follow_order or not isinstance(self.mart, History)

    @property
    def compares(self) -> bool:
        """Whether changes may be late: not if all are newer than earlier changes and, for a history, after them."""
        return not (self.stats.all_newer and (self.stats.all_after or not isinstance(self.mart, History)))

    @property
    def has_order(self) -> bool:
        """Whether ``target_rows`` has the first order column too."""
        return isinstance(self.mart, History) or self.target.rows <= self.policy.order_column_rows

    @property
    def in_one_task(self) -> bool:
        """Whether one task folds the batch."""
        return self.stats.changes <= self.policy.single_task_changes

    @cached_property
    def new(self) -> DataFrame:
        """The batch's changes, with event time."""
        new = self.changes.new(self.spec)
        return new.coalesce(1) if self.in_one_task else new

    @cached_property
    def keys(self) -> DataFrame:
        """Keys of the batch's changes, with repeats."""
        keys = self.changes.new_keys(self.spec)
        return keys.coalesce(1) if self.changes.driver_batch is None and self.in_one_task else keys

    @cached_property
    def newest_rows(self) -> DataFrame:
        """The rows that may be the newest of one of the batch's keys, by the bounds of the batch."""
        among = self.stats.key_predicate
        return self.target.table.where(f"is_current AND {among}" if isinstance(self.mart, History) else among)

    @property
    def living_rows(self) -> DataFrame:
        """Undeleted rows of ``newest_rows``: the values in force before the batch."""
        if isinstance(self.mart, History):
            return self.target_rows.where(late.LIVED)
        return self.newest_rows.where(self._lives)

    @cached_property
    def target_rows(self) -> DataFrame:
        """:func:`frazil.marts.late.target_rows` of the batch, with file and position.

        The rows have all columns if changes may lack some.

        Cost: on read, one scan of the mart against a broadcast of the batch's keys.
        """
        spec, is_history = self.spec, isinstance(self.mart, History)
        also = [AT_FILE, AT_POS]
        if is_history:  # the rows themselves are needed again
            also += [quote(column) for column in spec.columns if column not in spec.keys]
            also += ["valid_from", "is_deleted", r.POSITION, r.ROW, EVENT_TIME]
        else:  # what nobody asks for is not read
            wanted = spec.columns if spec.fills else ()
            wanted = (*wanted, *(spec.order_columns[:1] if self.compares and self.has_order else ()))
            also += [quote(column) for column in dict.fromkeys(wanted) if column not in spec.keys]
        found = late.target_rows(self.newest_rows, self.keys, spec, *also, lives=self._lives)
        return self.changes.cache.keep((self.target.name, "target_rows"), lambda: found) if is_history else found

    @property
    def _lives(self) -> str:
        """SQL condition that a row of the mart is not deleted."""
        has_flag = isinstance(self.mart, History) or self.mart.deletes == "soft"
        return "NOT is_deleted" if has_flag else "true"

    @property
    def filled(self) -> DataFrame:
        """The batch's changes with all columns, except those of keys to recompute.

        Cost: if some changes lack columns, a scan of the mart's rows of their keys.
        """
        if not self.spec.fills:
            return self.new
        name = (self.target.name, "filled")
        return self.changes.cache.keep(name, lambda: fill_from(self.new, self.living_rows, self.spec))

    def with_prior_order(self, changes: DataFrame) -> DataFrame:
        """Join changes of the batch with the newest earlier order of their key.

        Cost: a scan of the rows of the mart and the deletes in silver that are not older than the batch.
        """
        held = self.target_rows if isinstance(self.mart, History) else self.newer_rows(self.keys)
        name, cache = ("tombstones", self.by_order, self.changes.upto), self.changes.cache
        dead = cache.keep(name, self.tombstones) if self.changes.is_shared else self.tombstones()
        return late.with_prior_order(changes, late.held_order(held, self.spec), dead, self.spec)

    def tombstones(self) -> DataFrame:
        """Return the newest delete of each of the batch's keys in earlier batches."""
        deletes = self.changes.earlier_deletes(self.spec, self._not_older())
        in_one_task = self.changes.files <= self.policy.single_task_files
        return late.tombstones(deletes, self.keys, self.spec, in_one_task=in_one_task)

    def newer_rows(self, keys: DataFrame) -> DataFrame:
        """Return the mart's rows of some keys that may make a change late, pruned by the bounds of the batch."""
        # A history already has its rows; a current table is scanned again.
        if isinstance(self.mart, History):
            return late.filter_keys(self.target_rows, keys, self.spec.keys)
        return late.filter_keys(self.newest_rows.where(self._not_older(among_rows=True)), keys, self.spec.keys)

    def _not_older(self, *, among_rows: bool = False) -> str:
        """Return SQL for the deletes, or rows of the mart, that may make a change late; it prunes files."""
        if not (self.spec.sequence_by and self.by_order):
            return "true"
        if self.spec.types[self.spec.sequence_by[0]] in ("float", "double"):
            return "true"  # NaN is the greatest number here, but files are pruned as if it were none
        newer = f"{quote(self.spec.sequence_by[0])} >= {self.stats.oldest}"
        if among_rows or not self.spec.times_follow_order:
            return newer
        # A delete may end a version later than its order implies.
        return f"({newer} OR {r.SOURCE_TIME} >= CAST({self.stats.oldest} AS timestamp))"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChanges:
    """Batches ``after < batch <= upto`` of a silver table. All rows come with their event time.

    Attributes:
        spark: the session that reads them.
        silver, bronze: quoted names of the silver and bronze tables.
        files: number of data files of silver.
        after, upto: bounds of the batches.
        driver_batch: the batch's rows if they are in the driver's memory; else None.
        find_deletes: returns the deletes of some keys with further columns, as
            :func:`frazil.runner.batch.driver_batch.find_deletes` does.
        find_all: returns all changes of some keys, as :func:`frazil.runner.batch.driver_batch.find_changes` does.
        cache: DataFrames that the marts of the table share.
        is_shared: several marts apply the batch.
    """

    spark: SparkSession
    silver: str
    bronze: str
    files: int
    after: int
    upto: int
    driver_batch: DriverBatch | None
    find_deletes: Callable[[pa.Table, Sequence[str], Mapping[str, pa.Scalar]], pa.Table | NeedsSpark]
    find_all: Callable[[pa.Table, Sequence[str]], pa.Table | NeedsSpark]
    cache: FrameCache
    is_shared: bool

    def all(self, spec: FoldSpec) -> DataFrame:
        """Return all changes of the table."""
        return with_event_time(self.spark.table(self.silver), spec)

    def new(self, spec: FoldSpec) -> DataFrame:
        """Return the changes of the batch."""
        span, driver_batch = (self.after, self.upto), self.driver_batch
        if driver_batch is None:
            return self.cache.keep(("new", *span), lambda: rows_of_batches(self.all(spec), *span))
        return with_event_time(self.cache.share(("new", *span), lambda: driver_batch.frame(self.spark)), spec)

    def new_keys(self, spec: FoldSpec) -> DataFrame:
        """Return the keys of the batch's changes, with repeats."""
        if self.driver_batch is None:
            return self.new(spec).select(*map(quote, spec.keys))
        return self.driver_batch.frame(self.spark, spec.keys)

    def in_memory(self, spec: FoldSpec) -> pa.Table:
        """Bring the changes of the batch to the driver, without event time.

        Cost: a Spark job, unless they are already there.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCounts:
    """Number of keys of a batch by verdict; ``late`` counts changes.

    Attributes:
        late, inserted, updated, deleted: as :class:`frazil.runner.report.MartReport` defines them.
        recompute: keys whose rows are computed from all their changes.
        replaced: keys that lose rows of the mart.
        deletes_without_values: deleted keys whose delete came without the row's values.
    """

    late: int
    recompute: int
    replaced: int
    inserted: int
    updated: int
    deleted: int
    deletes_without_values: int

    @classmethod
    def of(cls, kinds: pa.Table, keys: str) -> Self:
        """Return the counts from the number of keys of each kind.

        Args:
            kinds: the columns ``KINDS`` of :mod:`frazil.marts.late`, ``_cdc_late`` summed up, and
            keys: the column with the number of keys.
        """
        of: Counter[str] = Counter()
        for kind in kinds.to_pylist():
            number, recompute, superseded = kind[keys], kind[late.RECOMPUTE], kind[late.SUPERSEDED]
            is_there, lived = kind[late.IN_TARGET], kind[late.LIVED]
            lives = lived if superseded else kind[late.IS_LIVE]  # late changes do not decide whether a key lives
            without_values = not kind[late.IS_LIVE] and kind[late.DELETE_ONLY]
            of["late"] += kind[late.LATE]
            of["recompute"] += number * recompute
            of["replaced"] += number * (recompute or (is_there and not superseded))
            of["inserted"] += number * (lives and not lived)
            of["updated"] += number * (lives and lived and not superseded)
            of["deleted"] += number * (lived and not lives)
            of["deletes_without_values"] += number * (without_values and is_there and not recompute)
        return cls(**{one.name: of[one.name] for one in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionDelta:
    """A delta in the driver's memory.

    Attributes:
        counts: counts of the keys by verdict.
        rows: Arrow table of the new rows: the mart's columns and others.
        positions: Arrow table of the positions of replaced rows, see :mod:`frazil.lake.commit`.
        keys: Arrow table of their keys.
    """

    counts: DeltaCounts
    rows: pa.Table
    positions: pa.Table
    keys: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDelta:
    """A delta that Spark computes while writing it.

    Attributes:
        counts: counts of the keys by verdict.
        rows: the new rows, with the mart's columns.
        keys: the keys of replaced rows, with ``_cdc_recompute``: see :func:`frazil.marts.late.replaced_sql`.
    """

    counts: DeltaCounts
    rows: DataFrame
    keys: DataFrame


MartDelta: TypeAlias = PositionDelta | KeyDelta


class ApplyBackend(Protocol):
    """Computes the delta of one mart. It is called once per batch and mart, reads tables and writes none.

    For the same batch all backends return the same counts, and deltas that lead to the same rows. A backend returns
    why it needs Spark if its result would not be exact; :func:`frazil.runner.apply.spark.spark_delta` accepts every
    batch.
    ``tests/marts/test_apply_backends.py`` compares all backends with the oracle.
    """

    def __call__(self, batch: MartBatch) -> MartDelta | NeedsSpark:
        """Return the delta of a batch."""
        ...
