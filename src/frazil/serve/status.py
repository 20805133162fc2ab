"""State of every table: batches, rows, files, and what waits at the source."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import duckdb

from frazil.bronze import record as r
from frazil.catalog.catalogs import NoLakeError
from frazil.catalog.trouble import translated
from frazil.catalog.warehouse import verify_catalog
from frazil.duck import connect, scan
from frazil.errors import FrazilError, HistoryChangedError, StorageError
from frazil.iceberg.snapshot import TableSnapshot
from frazil.runner.past_runs import newest_open_run, standing
from frazil.serve.checks import LastChecks, last_checks
from frazil.serve.lag import CaptureLag, Lags
from frazil.serve.layers import verify_foreign, verify_gold
from frazil.serve.quarantine import retyped
from frazil.serve.tables import read_snapshot, tables, unfinished_erase, verify_manifests
from frazil.silver.baseline import baseline_of
from frazil.silver.evolution import REFUSED
from frazil.spec import Current
from frazil.spec.pii import TREATING
from frazil.spec.sql.select import selected
from frazil.spec.tables import gold_table, source_tables
from frazil.steps import SparkRuns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from frazil.catalog.catalogs import Located
    from frazil.runner.past_runs import OpenRun, PastFailure
    from frazil.spec import Gold, Pipeline, Table
    from frazil.spec.tables import LakeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeStatus:
    """State of a mart or an aggregate.

    Attributes:
        name: the table with its namespace.
        batch: newest batch it holds, 0 for none; for an aggregate, the newest batch among its marts.
        lag: batches by which bronze is ahead; for an aggregate, the largest lag behind one of its marts.
        rows: number of rows.
        deleted_rows: number of rows flagged ``is_deleted``; None if deleted rows are removed.
        snapshots: number of readable snapshots.
        size_bytes: size of the newest snapshot's files.
        data_files: data files of the newest snapshot.
        delete_files: delete files of the newest snapshot; many slow readers down until ``frazil maintain``.
        committed_at: time of the newest commit, in UTC; None before the first.
        spark_runs: how often Spark computed the rows in place of the driver.
        trouble: why the table cannot be read, with zeros for unknown numbers; None if it can.
        failures: why the newest refresh of an aggregate failed; a later success clears them.
    """

    name: str
    batch: int
    lag: int
    rows: int
    deleted_rows: int | None
    snapshots: int
    size_bytes: int
    data_files: int
    delete_files: int
    committed_at: datetime | None
    spark_runs: SparkRuns = field(default_factory=SparkRuns)
    trouble: str | None = None
    failures: tuple[PastFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """State of the tables of one source table.

    Attributes:
        table: name of the source table.
        batch: newest batch of bronze, 0 for none.
        files: number of ingested files, without duplicates.
        duplicates: number of files whose content was known already.
        rows: number of parsed records.
        bad: number of unparsable records; they are in quarantine as well.
        silver_batch: newest batch that silver holds.
        changes: number of typed changes.
        quarantined: number of records in quarantine.
        retyped: why records wait there for columns of another type, with the ways out.
        spark_runs: how often Spark computed the changes in place of the driver.
        treating: whether ``frazil erase --pii`` is running or was killed.
        horizon: day before which changes are folded into the baseline; None without a baseline.
        committed_at: time of bronze's newest commit, in UTC.
        marts: marts in the order of the declaration.
        waiting: paths of files at the source that bronze does not know.
        touched: paths of ingested files whose size or time has changed since.
        passed: (path, reason) of files at the source that do not belong to it.
        trouble: why the source or the lake's tables cannot be read, with zeros for unknown numbers; None if they can.
        failures: why the newest run of the table failed, for each mart if only marts failed; a later success clears
            them.
        unfinished_erase: name of an erase that is running or was killed, or None.
        captured: lag of the landing files behind each server of a captured table.
        checks: results of the last checks.
    """

    table: str
    batch: int
    files: int
    duplicates: int
    rows: int
    bad: int
    silver_batch: int
    changes: int
    quarantined: int
    committed_at: datetime | None
    marts: tuple[MadeStatus, ...]
    waiting: tuple[str, ...]
    touched: tuple[str, ...]
    passed: tuple[tuple[str, str], ...] = ()
    trouble: str | None = None
    failures: tuple[PastFailure, ...] = ()
    unfinished_erase: str | None = None
    captured: tuple[CaptureLag, ...] = ()
    horizon: str | None = None
    treating: bool = False
    spark_runs: SparkRuns = field(default_factory=SparkRuns)
    checks: LastChecks = field(default_factory=LastChecks)
    retyped: tuple[str, ...] = ()


def status(pipeline: Pipeline, *, select: Sequence[str] = ()) -> list[TableStatus]:
    """Return the state of each source table and its marts.

    A source table whose tables cannot be read reports the reason as its ``trouble``.

    Args:
        pipeline: the declaration.
        select: tables, as for a run; empty for all.

    Raises:
        NoLakeError: no table of the lake exists.
        UnknownSelectionError: a word of ``select`` matches nothing.
        DamagedTableError: a file of one of the tables is missing or damaged.

    Cost: reads the last checks, a metadata file for each table and the ledger of each bronze table, lists each source,
    and opens a connection for each slot, log and topic. Rows are read only if delete files or deletion flags make the
    numbers in the metadata inexact.
    """
    located = _located(pipeline)
    names = selected(pipeline, select).tables
    failures = standing(pipeline, names).failures
    chosen = [table for table in pipeline.tables if table.name in names]
    with ThreadPoolExecutor(max_workers=1) as beside:
        # DuckDB takes a quarter of a second to load; meanwhile the sources are listed.
        opening = beside.submit(connect, located)
        lags = Lags(pipeline, names)
        sources = [_listed(pipeline, table) for table in chosen]
        with translated(pipeline), opening.result() as connection:
            lake = _Lake(pipeline, located, connection, failures)
            found = [lake.table(table, source) for table, source in zip(chosen, sources, strict=True)]
    checks = last_checks(pipeline)
    return [replace(one, captured=lags.of(one.table), checks=checks.get(one.table, LastChecks())) for one in found]


def open_run(pipeline: Pipeline) -> OpenRun | None:
    """Return the newest run if it has not ended, because it is running or was killed; otherwise None."""
    return newest_open_run(pipeline)


def gold_status(pipeline: Pipeline, *, select: Sequence[str] = ()) -> list[MadeStatus]:
    """Return the state of each aggregate, and its lag behind its marts.

    Args:
        pipeline: the declaration.
        select: aggregates, as for a run; empty for all.

    Raises:
        NoLakeError: no table of the lake exists.
        UnknownSelectionError: a word of ``select`` matches nothing.

    Cost: a metadata file for each aggregate and each of its marts.
    """
    located = _located(pipeline)
    names = selected(pipeline, select).gold
    failures = standing(pipeline, [f"gold.{name}" for name in names]).failures
    chosen = [gold for gold in pipeline.gold if gold.name in names]
    return [_gold(pipeline, located, gold, failures.get(f"gold.{gold.name}", ())) for gold in chosen]


def _gold(pipeline: Pipeline, located: Located, gold: Gold, failures: tuple[PastFailure, ...]) -> MadeStatus:
    own, trouble = gold_table(pipeline, gold), None
    stands, ahead = TableSnapshot(), [0]
    try:
        stands = read_snapshot(located.get(own.key))
        held = dict(stands.bookmark.get("inputs", {}))
        marts = pipeline.lake.namespaces.marts
        ahead += [read_snapshot(located.get((marts, mart))).batch - batch for mart, batch in held.items()]
        verify_gold(own, stands)
    except StorageError as error:
        trouble = error.message
    except HistoryChangedError as error:
        trouble = f"{error.message}; {error.hint}"
    # An aggregate is replaced as a whole, so the row count in its metadata is exact.
    made = _made(own.full_name, stands, lag=max(ahead), rows=stands.records, deleted=None)
    return replace(made, trouble=trouble, failures=failures)


def _located(pipeline: Pipeline) -> Located:
    located = tables(pipeline)
    if not located:
        raise NoLakeError(pipeline.lake.warehouse)
    return located


@dataclass(frozen=True, slots=True)
class _Listed:
    """Current files of a source: path -> (size in bytes, modification time in nanoseconds)."""

    files: Mapping[str, tuple[int, int]]
    passed: tuple[tuple[str, str], ...]
    trouble: str | None


def _listed(pipeline: Pipeline, table: Table) -> _Listed:
    from frazil.sources.kinds import source_of  # noqa: PLC0415 - PyArrow comes with it, while DuckDB loads

    try:
        listing = source_of(table).list(pipeline.folder)
    except FrazilError as error:
        return _Listed({}, (), error.message)
    refused = "; ".join(f"{path}: {reason}" for path, reason in listing.refused)
    files = {file.path: (file.size_bytes, file.modified_ns) for file in listing.files}
    return _Listed(files, listing.passed, refused or None)


def _touched(
    pipeline: Pipeline, table: Table, known: Mapping[str, tuple[int, int]], files: Mapping[str, tuple[int, int]]
) -> tuple[str, ...]:
    """Return the files that have another size or time than bronze has; not those that lost erased records since."""
    found = tuple(path for path, seen in files.items() if known.get(path, seen) != seen)
    if not found:
        return ()
    from frazil.sources.capture import EmptiesRecords  # noqa: PLC0415 - as above
    from frazil.sources.kinds import source_of  # noqa: PLC0415

    source = source_of(table)
    if not isinstance(source, EmptiesRecords):
        return found
    return tuple(path for path in found if source.emptied_from(f"{pipeline.folder / path}") is None)


@dataclass(frozen=True, slots=True)
class _Lake:
    """The tables of a lake at one moment."""

    pipeline: Pipeline
    located: Located
    connection: duckdb.DuckDBPyConnection
    failures: Mapping[str, tuple[PastFailure, ...]]

    def table(self, table: Table, source: _Listed) -> TableStatus:
        """Return the state of a source table; a table that cannot be read is reported as ``trouble``."""
        try:
            return self.readable(table, source)
        except (StorageError, duckdb.Error) as error:
            first = f"{error}".splitlines()[0]
            nothing = _Lake(self.pipeline, {}, self.connection, self.failures)
            return replace(nothing.readable(table, source), waiting=(), trouble=f"its tables cannot be read: {first}")

    def readable(self, table: Table, source: _Listed) -> TableStatus:
        made = source_tables(self.pipeline, table)
        location = self.located.get(made.bronze.key)
        bronze = read_snapshot(location)
        changes = read_snapshot(self.located.get(made.changes.key))
        quarantine = read_snapshot(self.located.get(made.quarantine.key))
        ledger = self.ledger(location)
        known = {line.path: (line.size_bytes, line.modified_ns) for line in ledger}
        return TableStatus(
            table=table.name,
            batch=bronze.batch,
            files=sum(not line.is_duplicate for line in ledger),
            duplicates=sum(line.is_duplicate for line in ledger),
            rows=sum(line.rows for line in ledger),
            bad=sum(line.bad for line in ledger),
            silver_batch=changes.batch,
            changes=changes.records,
            quarantined=quarantine.records,
            retyped=retyped(self.pipeline, table, self.located) if changes.bookmark.get(REFUSED) else (),
            committed_at=bronze.committed_at,
            marts=tuple(self.mart(table, mart, bronze.batch) for mart in made.marts),
            waiting=tuple(path for path in source.files if path not in known),
            touched=_touched(self.pipeline, table, known, source.files),
            passed=source.passed,
            trouble=_behind(self.pipeline, table, location)
            or source.trouble
            or _lost(self.pipeline, table, known, source.files)
            or _foreign(table, made.bronze, bronze)
            or _foreign(table, made.changes, changes),
            failures=self.failures.get(table.name, ()),
            unfinished_erase=unfinished_erase(self.pipeline, table, self.located),
            horizon=_horizon(changes),
            treating=TREATING in bronze.bookmark,
            spark_runs=changes.spark_runs,
        )

    def mart(self, table: Table, made: LakeTable, newest: int) -> MadeStatus:
        location = self.located.get(made.key)
        stands = read_snapshot(location)
        flagged = not (isinstance(made.mart, Current) and made.mart.deletes == "hard")
        rows, deleted = stands.records, 0
        if location is not None and rows and (flagged or stands.delete_files):
            count = "count(*) FILTER (WHERE is_deleted)" if flagged else "0"
            verify_manifests(location)
            sql = f"SELECT count(*), {count} FROM {scan(location)}"
            rows, deleted = self.connection.execute(sql).fetchall()[0]
        lag = newest - stands.batch
        found = _made(made.full_name, stands, lag=lag, rows=rows, deleted=deleted if flagged else None)
        return replace(found, trouble=_foreign(table, made, stands))

    def ledger(self, bronze: str | None) -> list[_Line]:
        if bronze is None:
            return []
        verify_manifests(bronze)
        line = r.LEDGER
        found = self.connection.execute(
            f"SELECT {r.FILE}, {line}.size_bytes, {line}.modified_ns, {line}.rows, {line}.bad, "
            f"{line}.same_as IS NOT NULL FROM {scan(bronze)} WHERE {r.KIND} = '{r.LEDGER_ROW}'"
        )
        return [_Line(*row) for row in found.fetchall()]


def _lost(pipeline: Pipeline, table: Table, taken: Collection[str], landed: Collection[str]) -> str | None:
    """Return why the landing files are not those that the lake goes on from; None where they are."""
    from frazil.sources.kinds import landing_problem  # noqa: PLC0415 - as above

    error = landing_problem(pipeline, table, taken, landed)
    return None if error is None else f"[{error.code}] {error.message}; {error.hint}"


def _behind(pipeline: Pipeline, table: Table, location: str | None) -> str | None:
    """Return why the catalog is older than the warehouse, or of another one; None if it is neither."""
    try:
        verify_catalog(pipeline, table, location)
    except HistoryChangedError as error:
        return f"[{error.code}] {error.message}; {error.hint}"
    return None


def _foreign(table: Table, made: LakeTable, stands: TableSnapshot) -> str | None:
    """Return how another engine made a table's rows invalid; None if they are valid."""
    try:
        verify_foreign(table, made.full_name, stands, is_bronze=made.role == "bronze")
    except HistoryChangedError as error:
        return f"{error.message}; {error.hint}"
    return None


def _horizon(changes: TableSnapshot) -> str | None:
    baseline = baseline_of(changes.bookmark)
    return None if baseline is None else baseline.before[:10]


def _made(name: str, stands: TableSnapshot, *, lag: int, rows: int, deleted: int | None) -> MadeStatus:
    return MadeStatus(
        name=name,
        batch=stands.batch,
        lag=lag,
        rows=rows,
        deleted_rows=deleted,
        snapshots=stands.snapshots,
        size_bytes=stands.size_bytes,
        data_files=stands.data_files,
        delete_files=stands.delete_files,
        committed_at=stands.committed_at,
        spark_runs=stands.spark_runs,
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """A file in the ledger."""

    path: str
    size_bytes: int
    modified_ns: int
    rows: int
    bad: int
    is_duplicate: bool
