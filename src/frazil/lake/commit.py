"""One commit protocol for every table: write on a branch of one's own, then move ``main`` there at once.

Readers of ``main`` see all of a batch or nothing of it. ``fast_forward`` is a compare-and-swap: if ``main``
moved since the bookmark was read, it refuses, and the run that came second stops with exit code 7.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import functions as F

from frazil.errors import BusyError
from frazil.lake.heads import BOOKMARK, Head, head
from frazil.lake.positions import delete_places
from frazil.spec.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

PREFIX = "frazil_run_"
_SETTING = f"spark.sql.iceberg.snapshot-property.{BOOKMARK}"


class Batch:
    """One batch of writes to one table, published together or not at all.

    Use as a context manager around the writes; call :meth:`publish` last. Leaving without it, or by an
    error, drops the branch: nothing was ever visible. A process that dies leaves the branch behind, and
    the next batch of the same table drops it.

    The rows and the bookmark are one snapshot: the last write carries both. A deletion of whole files
    cannot carry it, so a batch always ends with :meth:`append` or :meth:`replace`, if of no rows.
    """

    def __init__(self, spark: SparkSession, path: tuple[str, ...], base: Head, bookmark: Mapping[str, Any]) -> None:
        self._spark, self._path, self._base = spark, path, base
        self._name = f"{PREFIX}{uuid.uuid4().hex[:12]}"
        self._bookmark = _text(bookmark)

    @property
    def table(self) -> str:
        """Quoted name of the table."""
        return quote(*self._path)

    @property
    def branch(self) -> str:
        """Quoted name that writes go to and that reads see them at."""
        return quote(*self._path, f"branch_{self._name}")

    def __enter__(self) -> Self:
        for stale in self._base.branches:
            if stale.startswith(PREFIX):
                self._spark.sql(f"ALTER TABLE {self.table} DROP BRANCH IF EXISTS {quote(stale)}")
        at = "" if self._base.snapshot_id is None else f" AS OF VERSION {self._base.snapshot_id}"
        self._spark.sql(f"ALTER TABLE {self.table} CREATE BRANCH {quote(self._name)}{at}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spark.sql(f"ALTER TABLE {self.table} DROP BRANCH IF EXISTS {quote(self._name)}")

    def delete(self, condition: str) -> None:
        """Delete the rows of the branch for which a SQL condition over the alias ``t`` holds."""
        with self._stamped():
            self._spark.sql(f"DELETE FROM {self.branch} AS t WHERE {condition}")

    def delete_places(self, places: Any, *, living: bool = True) -> None:
        """Delete the rows of the branch that stand at some places; see :mod:`frazil.lake.positions`."""
        delete_places(self._spark, self.table, self._name, places, living=living)

    def append(self, rows: DataFrame) -> None:
        """Append rows, columns by name; a column of the table that they lack is NULL."""
        with self._stamped():
            self._aligned(rows).writeTo(self.branch).append()

    def replace(self, rows: DataFrame) -> None:
        """Replace all rows of the branch; otherwise as :meth:`append`."""
        with self._stamped():
            self._aligned(rows).writeTo(self.branch).overwrite(F.lit(True))

    def restamp(self, bookmark: Mapping[str, Any]) -> None:
        """Let the batch end with another bookmark than it began with."""
        self._bookmark = _text(bookmark)
        self.append(self._spark.table(self.branch).limit(0))

    @contextmanager
    def _stamped(self) -> Iterator[None]:
        self._spark.conf.set(_SETTING, self._bookmark)
        try:
            yield
        finally:
            self._spark.conf.unset(_SETTING)

    def _aligned(self, rows: DataFrame) -> DataFrame:
        given = {name.lower() for name in rows.columns}
        return rows.select(
            *(
                F.col(quote(field.name))
                if field.name.lower() in given
                else F.lit(None).cast(field.dataType).alias(field.name)
                for field in self._spark.table(self.branch).schema
            )
        )

    def publish(self) -> Head:
        """Make the batch visible, all at once.

        Raises:
            BusyError: another run published first; nothing of this batch is visible.
        """
        table = ".".join(self._path[1:])
        try:
            self._spark.sql(
                f"CALL {quote(self._path[0])}.system.fast_forward({literal(table)}, 'main', {literal(self._name)})"
            )
        except Exception as error:
            if "ancestor" in str(error) or "CommitFailedException" in str(error):
                raise BusyError(
                    f"{table}: another run published first; nothing of this batch is visible",
                    hint="run again: it takes up where the other run ended",
                ) from error
            raise
        return head(self._spark, self.table)


def _text(bookmark: Mapping[str, Any]) -> str:
    return json.dumps(dict(bookmark), separators=(",", ":"), sort_keys=True)
