"""One commit protocol for every table: write to a branch, then move ``main`` to it in one commit.

Readers of ``main`` see all of a batch or nothing of it. Publishing is a compare-and-swap: if ``main`` has moved since
the bookmark was read, the commit is refused, and the later run stops with exit code 7.

A row delta is for rows that are in the driver's memory, or are streamed through it. SQL would search for the old rows
a second time and plan two writes, which takes longer than all other work of a small batch.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.catalog.trouble import translate_error
from frazil.errors import BusyError, FrazilError
from frazil.host import usable_cores
from frazil.iceberg.files import make_table_durable
from frazil.iceberg.snapshot import (
    BOOKMARK,
    BY_SPARK,
    RUN_BRANCH,
    RUN_ID,
    TableSnapshot,
    bookmark_text,
    table_snapshot,
    verify_clock,
)
from frazil.lake.file_writer import (
    CODEC,
    CODEC_SETTING,
    LEVEL_SETTING,
    LIVING,
    FileWriter,
    part_column,
    split_by_partition,
)
from frazil.older_spark import writes_nulls
from frazil.plan.policy import DEFAULT_POLICY
from frazil.spark.gateway import commit_snapshot, direct_executor, java_table, snapshot_fields
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

    from frazil.steps import SparkReason


class TableTransaction:
    """Writes to one table, published together or not at all.

    Use it as a context manager around the writes, and call :meth:`publish` last. Leaving without :meth:`publish`, or by
    an error, drops the branch, and readers have seen nothing. A killed process leaves the branch behind, and the next
    transaction on the same table drops it.

    The last write carries both the rows and the bookmark in one snapshot. A deletion of whole files cannot carry a
    bookmark, so a transaction always ends with :meth:`append` or :meth:`replace`, if necessary of no rows. A
    transaction of a single :meth:`row_delta` or :meth:`stream` needs no branch: its snapshot is added to the table when
    it is published.

    Attributes:
        published: the snapshot that this transaction published; None before.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: tuple[str, ...],
        base: TableSnapshot,
        bookmark: Mapping[str, Any],
        *,
        run_id: str = "",
        file_bytes: int = DEFAULT_POLICY.file_bytes,
    ) -> None:
        self._spark, self._path, self._base, self._file_bytes = spark, path, base, file_bytes
        self._name = f"{RUN_BRANCH}{uuid.uuid4().hex[:12]}"
        self._bookmark = dict(bookmark)
        self._notes = {RUN_ID: run_id} if run_id else {}
        self._at = base.snapshot_id
        self._has_branch = self._has_writes = False
        self._staged: Any | None = None
        self.published: TableSnapshot | None = None

    @property
    def table(self) -> str:
        """Quoted name of the table."""
        return quote(*self._path)

    @property
    def branch(self) -> str:
        """Quoted name that writes go to and that reads see them at."""
        return quote(*self._path, f"branch_{self._name}")

    def __enter__(self) -> Self:
        """Drop branches of killed runs.

        Raises:
            ClockError: the table's newest commit is later than this machine's clock.
        """
        verify_clock(self._path, self._base)
        for stale in self._base.branches:
            if stale.startswith(RUN_BRANCH):
                self._spark.sql(f"ALTER TABLE {self.table} DROP BRANCH IF EXISTS {quote(stale)}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.published is None and self._has_branch:
            self._spark.sql(f"ALTER TABLE {self.table} DROP BRANCH IF EXISTS {quote(self._name)}")

    def note(self, **values: str | int) -> None:
        """Add values to the summary of the following snapshots, as ``frazil.<name>``.

        They are for people and tools. Frazil does not read them back.
        """
        self._notes |= {f"frazil.{name}": f"{value}" for name, value in values.items()}

    def note_spark(self, reasons: Iterable[SparkReason]) -> None:
        """Note why Spark computed the rows in place of the driver, for ``frazil status``; nothing without a reason."""
        if said := ",".join(dict.fromkeys(reasons)):
            self._notes[BY_SPARK] = said

    def delete(self, condition: str) -> None:
        """Delete the rows of the branch for which a SQL condition over the alias ``t`` holds."""
        self._begin_write()
        self._spark.sql(f"DELETE FROM {self.branch} AS t WHERE {condition}")

    @property
    def takes_deletes(self) -> bool:
        """Whether :meth:`delete` can be used: Iceberg fails if a column of an earlier partition spec was dropped.

        It fails until the snapshots with such files have expired.
        """
        table = java_table(self._spark, self.table)
        if table.specs().size() == 1:
            return True
        schema, specs = table.schema(), table.specs().values()
        return all(schema.findField(part.sourceId()) is not None for spec in specs for part in spec.fields())

    @property
    def takes_rows(self) -> bool:
        """Whether :meth:`stream`, or :meth:`row_delta` without places, can be the one write of this transaction."""
        return takes_row_deltas(self._spark, self.table, deletes=False)

    @property
    def takes_places(self) -> bool:
        """Whether :meth:`row_delta` with places can be the one write of this transaction."""
        return takes_row_deltas(self._spark, self.table, deletes=True)

    def row_delta(self, rows: pa.Table, places: pa.Table | None = None) -> None:
        """Add rows and delete the rows at ``places``: see :func:`frazil.lake.commit.stage_row_delta`."""
        self._stage([[rows]], rows.column_names, places)

    def stream(self, rows: Sequence[Iterable[pa.Table]], columns: Sequence[str]) -> None:
        """Add rows that do not fit into memory: streams of tables that all have ``columns``."""
        self._stage(rows, columns, None)

    def touch(self) -> None:
        """Add an empty snapshot, without a Spark job."""
        table = java_table(self._spark, self.table)
        adding = table.newFastAppend()
        if self._bookmark:
            adding.set(BOOKMARK, bookmark_text(self._bookmark))
        self._staged = adding.apply()

    def append(self, rows: DataFrame) -> None:
        """Append rows, columns by name; missing columns of the table are NULL."""
        self._writer(rows).append()

    def replace(self, rows: DataFrame) -> None:
        """Replace all rows of the branch; otherwise as :meth:`append`."""
        self._writer(rows).overwrite(F.lit(True))

    def written(self) -> DataFrame:
        """Return all rows of the branch."""
        return self._spark.table(self.branch)

    def appended(self) -> DataFrame:
        """Return the rows of the last :meth:`append` alone, where the branch had a snapshot before it."""
        newest, parent = self._tip(java_table(self._spark, self.table))
        between = {"start-snapshot-id": f"{parent}", "end-snapshot-id": f"{newest}"}
        return self._spark.read.options(**between).table(self.table)

    def set_bookmark(self, bookmark: Mapping[str, Any]) -> None:
        """Replace the bookmark that the transaction publishes."""
        self._bookmark = dict(bookmark)
        if self._has_writes:
            self.append(self._spark.table(self.branch).limit(0))

    def publish(self) -> TableSnapshot:
        """Make the writes visible, all at once.

        Returns:
            The table's new snapshot.

        Raises:
            BusyError: another run published first; nothing of this transaction is visible.
        """
        table = java_table(self._spark, self.table)
        with refused_as_second(self._path):
            self.published = self._publish(table)
        return self.published

    def _publish(self, table: Any) -> TableSnapshot:
        # Based on the table's current state: the commit is refused if the table changes before it.
        refs, before = table.manageSnapshots(), table.operations().current()
        main = table.currentSnapshot()
        if (main and main.snapshotId()) != self._base.snapshot_id:
            raise came_second(self._path)
        make_table_durable(table)
        if self._staged is None:
            self._follow(table)
            newest = table.snapshot(self._name)
            refs.fastForwardBranch("main", self._name).removeBranch(self._name).commit()
        else:
            newest = self._staged
            if newest.parentId() != self._base.snapshot_id:
                raise came_second(self._path)
            commit_snapshot(self._spark, table, before, newest)
        published = table_snapshot(TableSnapshot(), snapshot_fields(self._spark, newest), lambda _: None)
        return replace(published, bookmark=self._bookmark)

    def _stage(self, rows: Sequence[Iterable[pa.Table]], columns: Sequence[str], places: pa.Table | None) -> None:
        summary = {BOOKMARK: bookmark_text(self._bookmark), **self._notes}
        delta = RowDelta(rows=rows, columns=columns, places=places)
        self._staged = stage_row_delta(self._spark, self.table, delta, summary, file_bytes=self._file_bytes)

    def _writer(self, rows: DataFrame) -> DataFrameWriterV2:
        self._begin_write()
        if not writes_nulls():
            rows = self._whole(rows)
        writer = rows.writeTo(self.branch).option(f"snapshot-property.{BOOKMARK}", bookmark_text(self._bookmark))
        for name, value in self._notes.items():
            writer = writer.option(f"snapshot-property.{name}", value)
        return writer

    def _whole(self, rows: DataFrame) -> DataFrame:
        """Add the table's missing columns to rows, as NULL."""
        there = {name.lower() for name in rows.columns}
        lacking = [column for column in self._spark.table(self.branch).schema if column.name.lower() not in there]
        return rows.select("*", *(F.lit(None).cast(column.dataType).alias(column.name) for column in lacking))

    def _begin_write(self) -> None:
        table = java_table(self._spark, self.table)
        if not self._has_branch:
            self._create_branch(table)
        elif self._has_writes:
            self._follow(table)
        self._has_writes = True

    def _create_branch(self, table: Any) -> None:
        with refused_as_second(self._path):  # what the branch begins with may have expired
            begin = (self._name,) if self._at is None else (self._name, self._at)
            table.manageSnapshots().createBranch(*begin).commit()
        self._has_branch = True
        if self._at is None:
            # The branch of a table without a snapshot begins with an empty one.
            self._at, _ = self._tip(table)

    def _follow(self, table: Any) -> None:
        """Verify that the branch is exactly one write further than before.

        Iceberg recreates a branch that was dropped during a write, without the earlier writes.
        """
        tip = self._tip(table)
        if self._at not in tip:
            raise BusyError(
                f"{'.'.join(self._path[1:])}: another run took this one for dead and dropped its branch",
                hint="run again: it takes up where the other run ended",
            )
        self._at = tip[0]

    def _tip(self, table: Any) -> tuple[int | None, int | None]:
        """Find the newest snapshot of the branch, and its parent."""
        snapshot = table.snapshot(self._name)
        return (snapshot.snapshotId(), snapshot.parentId()) if snapshot else (None, None)


@contextmanager
def refused_as_second(path: tuple[str, ...]) -> Iterator[None]:
    """Raise :class:`BusyError` if the catalog refuses a commit because the table has changed."""
    try:
        yield
    except FrazilError:
        raise
    except Exception as error:
        if isinstance(translate_error(error), BusyError):
            raise came_second(path) from error
        raise


def came_second(path: tuple[str, ...]) -> BusyError:
    """Return the error for a commit that another run has preceded."""
    return BusyError(
        f"{'.'.join(path[1:])}: another run published first; nothing of this batch is visible",
        hint="run again: it takes up where the other run ended",
    )


_WITH_PLACES: Final = 2
"""The one format version with position delete files."""
_PARTS: Final = (LIVING, r.KIND, r.CLASS)
"""Columns of Frazil with few values, which a table may be partitioned by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """Rows to add to a table, and positions of the rows to delete.

    Attributes:
        rows: streams of Arrow tables of the new rows, columns by name in any case; missing columns are NULL. Each
            stream is written to files of its own, by one thread; several streams are written in parallel.
        columns: the columns that all streams have.
        places: Arrow table of the columns ``file_path`` and ``pos``, and ``is_current`` if the table is partitioned by
            it; None to delete nothing.
    """

    rows: Sequence[Iterable[pa.Table]]
    columns: Sequence[str]
    places: pa.Table | None = None


def takes_row_deltas(spark: SparkSession, name: str, *, deletes: bool) -> bool:
    """Return whether :func:`stage_row_delta` can be used on a table.

    It needs a table without a sort order. All files must be unpartitioned, or partitioned by one of
    Frazil's own columns. Deletes need format 2, since format 3 requires deletion vectors. Tables with custom write
    properties use Spark's writer, which supports all of Iceberg's settings.

    Args:
        spark: any session.
        name: quoted name of the table.
        deletes: whether rows are deleted too.
    """
    table = java_table(spark, name)
    if deletes and table.operations().current().formatVersion() != _WITH_PLACES:
        return False
    spec = table.spec()
    if not (bool(spec.isUnpartitioned()) or part_column(spec) in _PARTS) or not _has_one_spec(table):
        return False
    if table.sortOrder().isSorted():
        return False
    settings = table.properties()
    own = re.findall(r"write\.(?:format|parquet)\.[^,\]]+", settings.keySet().toString())
    return not {*own} - {CODEC_SETTING, LEVEL_SETTING} and settings.getOrDefault(CODEC_SETTING, CODEC) == CODEC


def stage_row_delta(
    spark: SparkSession, name: str, delta: RowDelta, summary: Mapping[str, str], *, file_bytes: int
) -> Any:
    """Write added and deleted rows as a snapshot that is not part of the table yet.

    Args:
        spark: any session.
        name: quoted name of a table for which :func:`takes_row_deltas` holds.
        delta: the rows to add and to delete.
        summary: properties of the snapshot.
        file_bytes: memory that the rows of one file take.

    Returns:
        The Java snapshot, a child of the newest one of ``main``. Its files are written; they become orphans if the
        snapshot is not committed.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the column's type.

    Cost: writes one file per ``file_bytes`` of rows, stream and partition, and manifests. Each stream that is being
        written holds ``file_bytes`` in memory, and one file on the local disk.
    """
    table = java_table(spark, name)
    change = table.newRowDelta()
    with tempfile.TemporaryDirectory(prefix="frazil-") as folder:
        writer = FileWriter.of(spark, table, Path(folder), delta.columns, file_bytes=file_bytes)
        for file in _side_by_side(writer.rows, delta.rows):
            change.addRows(file)
        for part, some in split_by_partition(writer.parted_by, delta.places) if delta.places is not None else ():
            change.addDeletes(writer.places(some, part))
    for key, value in summary.items():
        change.set(key, value)
    return change.scanManifestsWith(direct_executor(spark)).apply()


def _side_by_side(write: Callable[[Iterable[pa.Table]], list[Any]], rows: Sequence[Iterable[pa.Table]]) -> list[Any]:
    """Write the streams in parallel, one thread for each core, and return all files."""
    if len(rows) == 1:
        return write(rows[0])
    with ThreadPoolExecutor(usable_cores()) as pool:  # where one fails, those not begun are cancelled
        return [file for files in pool.map(write, rows) for file in files]


def _has_one_spec(table: Any) -> bool:
    """Return whether all files of the newest snapshot are partitioned as the table is now."""
    newest = table.currentSnapshot()
    if newest is None or table.specs().size() == 1:
        return True
    now = table.spec().specId()
    return all(manifest.partitionSpecId() == now for manifest in newest.allManifests(table.io()))
