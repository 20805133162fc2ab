"""A cheap look at many tables: reads only metadata files and run files."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.audit.run_files import run_files
from frazil.catalog.catalogs import NoLakeError
from frazil.errors import StorageError
from frazil.iceberg.snapshot import TableSnapshot
from frazil.runner.past_runs import FACET, newest_open_run, pipeline_of
from frazil.serve.checks import LastChecks, last_checks
from frazil.serve.tables import read_snapshot, tables
from frazil.spec.tables import gold_table, lake_tables, source_tables
from frazil.steps import SparkRuns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from frazil.audit.run_files import RunFiles
    from frazil.catalog.catalogs import Located
    from frazil.runner.past_runs import OpenRun
    from frazil.spec import Gold, Pipeline, Table
    from frazil.spec.tables import LakeTable

Event: TypeAlias = "Mapping[str, Any]"

_RESULTS: Final = 5
_RUNS_READ: Final = 20
"""So many of the newest runs are read at most, for the last results of each table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Result of a run for a table: ``outcome`` is as the run's report has it, ``error`` its first error."""

    run_id: str
    at: dt.datetime
    outcome: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeOverview:
    """A mart or an aggregate.

    Attributes:
        name: the table with its namespace.
        exists: whether it was ever written.
        batch, lag: newest batch, and batches by which bronze is ahead; an aggregate has none.
        rows: rows by the counts of its files, as :attr:`frazil.iceberg.snapshot.TableSnapshot.rows`.
        size_bytes, data_files, delete_files: files of the newest snapshot.
        committed_at: time of the newest commit, in UTC.
        spark_runs: how often Spark computed the rows in place of the driver.
    """

    name: str
    exists: bool = False
    batch: int = 0
    lag: int = 0
    rows: int = 0
    size_bytes: int = 0
    data_files: int = 0
    delete_files: int = 0
    committed_at: dt.datetime | None = None
    spark_runs: SparkRuns = field(default_factory=SparkRuns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOverview:
    """A source table and its marts.

    Attributes:
        table: the source table; for an aggregate ``gold.<name>``.
        batch: newest batch of bronze.
        committed_at: time of bronze's newest commit, in UTC.
        changes, quarantined: rows of silver and of the quarantine.
        spark_runs: how often Spark computed the changes in place of the driver.
        marts: marts in the order of the declaration; for an aggregate itself.
        results: the newest results, the last one first.
        trouble: why a table cannot be read; None if all can.
        checks: results of the last checks.
    """

    table: str
    batch: int = 0
    committed_at: dt.datetime | None = None
    changes: int = 0
    quarantined: int = 0
    spark_runs: SparkRuns = field(default_factory=SparkRuns)
    marts: tuple[MadeOverview, ...] = ()
    results: tuple[RunResult, ...] = ()
    trouble: str | None = None
    checks: LastChecks = field(default_factory=LastChecks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Some tables of a lake.

    Attributes:
        tables: source tables, then aggregates.
        exists: False before the first run.
        open_run: the newest run if it is running or was killed, else None.
    """

    tables: tuple[TableOverview, ...]
    exists: bool
    open_run: OpenRun | None


def overview(pipeline: Pipeline, names: Collection[str]) -> Overview:
    """Return the state of some source tables and aggregates, in the order of the declaration.

    Args:
        pipeline: the declaration.
        names: source tables, and aggregates as ``gold.<name>``.

    Raises:
        StorageError: the catalog cannot be read.

    Cost: asks the catalog for these tables, reads a metadata file for each, at most twenty run files that this process
    has not read yet, and the last checks.
    """
    chosen = [table for table in pipeline.tables if table.name in names]
    golds = [gold for gold in pipeline.gold if f"gold.{gold.name}" in names]
    try:
        located = tables(pipeline, only={made.key for made in _made_of(pipeline, chosen, golds)})
        exists = bool(located or tables(pipeline))
    except NoLakeError:
        located, exists = {}, False
    results = _results(pipeline, names)
    found = [_table(pipeline, table, located, results.get(table.name, ())) for table in chosen]
    for gold in golds:
        name = f"gold.{gold.name}"
        one, trouble = _made(gold_table(pipeline, gold), located, None)
        marts, at = (one,), one.committed_at
        found.append(
            TableOverview(table=name, committed_at=at, marts=marts, results=results.get(name, ()), trouble=trouble)
        )
    checks = last_checks(pipeline)
    found = [replace(one, checks=checks.get(one.table.removeprefix("gold."), LastChecks())) for one in found]
    return Overview(tables=tuple(found), exists=exists, open_run=newest_open_run(pipeline))


def _made_of(pipeline: Pipeline, chosen: Sequence[Table], golds: Sequence[Gold]) -> Iterator[LakeTable]:
    for table in chosen:
        own = source_tables(pipeline, table)
        yield from (own.bronze, *own.computed)
    for gold in golds:
        yield gold_table(pipeline, gold)


def _table(pipeline: Pipeline, table: Table, located: Located, results: Sequence[RunResult]) -> TableOverview:
    own = source_tables(pipeline, table)
    stands, troubles = [], []
    for made in (own.bronze, own.changes, own.quarantine):
        snapshot, trouble = _snapshot(made, located)
        stands.append(snapshot)
        troubles.append(trouble)
    bronze, changes, bad = stands
    marts = []
    for made in own.marts:
        one, trouble = _made(made, located, bronze.batch)
        marts.append(one)
        troubles.append(trouble)
    return TableOverview(
        table=table.name,
        batch=bronze.batch,
        committed_at=bronze.committed_at,
        changes=changes.records,
        quarantined=bad.records,
        spark_runs=changes.spark_runs,
        marts=tuple(marts),
        results=tuple(results),
        trouble=next((trouble for trouble in troubles if trouble), None),
    )


def _made(made: LakeTable, located: Located, newest: int | None) -> tuple[MadeOverview, str | None]:
    stands, trouble = _snapshot(made, located)
    return MadeOverview(
        name=made.full_name,
        exists=stands.snapshot_id is not None,
        batch=stands.batch,
        lag=0 if newest is None else max(0, newest - stands.batch),
        rows=stands.rows,
        size_bytes=stands.size_bytes,
        data_files=stands.data_files,
        delete_files=stands.delete_files,
        committed_at=stands.committed_at,
        spark_runs=stands.spark_runs,
    ), trouble


def _snapshot(made: LakeTable, located: Located) -> tuple[TableSnapshot, str | None]:
    try:
        return read_snapshot(located.get(made.key)), None
    except StorageError as error:
        return read_snapshot(None), f"{made.full_name}: [{error.code}] {error.message}"


def _results(pipeline: Pipeline, names: Collection[str]) -> dict[str, tuple[RunResult, ...]]:
    found: dict[str, list[RunResult]] = {name: [] for name in names}
    for run in islice(_ended(pipeline), _RUNS_READ):
        try:
            met = _met(run)
        except _UnreadableError:
            continue
        for name, results in found.items():
            if name in met and len(results) < _RESULTS:
                results.append(met[name])
        if all(len(some) == _RESULTS for some in found.values()):
            break
    return {name: tuple(some) for name, some in found.items()}


def run_ends(pipeline: Pipeline) -> Iterator[Event]:
    """Yield the events at the ends of a pipeline's runs, newest first; unreadable ones are left out."""
    for run in _ended(pipeline):
        end = run.end()
        if end is not None:
            yield end


def _ended(pipeline: Pipeline) -> Iterator[RunFiles]:
    return (run for run in run_files(pipeline) if run.end_in is not None and pipeline_of(run) == pipeline.pipeline)


class _UnreadableError(Exception):
    """The record of a run cannot be read, now at least."""


@lru_cache(maxsize=_RUNS_READ)
def _met(ended: RunFiles) -> Mapping[str, RunResult]:
    """Return the results of a run, which never change."""
    end = ended.end()
    if end is None:
        raise _UnreadableError
    return dict(_told(end))


def _told(event: Event) -> Iterator[tuple[str, RunResult]]:
    try:
        run, at = event["run"], dt.datetime.fromisoformat(event["eventTime"])
        told: Iterable[Event] = (*run["facets"][FACET]["tables"], *run["facets"][FACET]["gold"])
        for part in told:
            errors = part["errors"]
            error = f"[{errors[0]['code']}] {errors[0]['message']}" if errors else None
            outcome = "failed" if errors else part["outcome"]
            yield part["name"], RunResult(run_id=run["runId"], at=at, outcome=outcome, error=error)
    except (KeyError, TypeError, ValueError, AttributeError):
        return  # not ours, or of another version


@dataclass(frozen=True, slots=True, kw_only=True)
class MartCommit:
    """Counts of one run for one mart or aggregate; counts are None where the run does not say them."""

    name: str
    strategy: str | None
    rows: int | None
    inserted: int | None
    updated: int | None
    deleted: int | None
    late: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBatch:
    """Counts of one run for one source table.

    Attributes:
        run_id, at: the run, and its end in UTC.
        batch: batch of bronze.
        files, records, bad: what bronze took.
        changes, quarantined: rows of silver and of the quarantine.
        commits: marts that were written.
    """

    run_id: str
    at: dt.datetime
    batch: int
    files: int
    records: int
    bad: int
    changes: int
    quarantined: int
    commits: tuple[MartCommit, ...]


def batches(pipeline: Pipeline, table: str, *, limit: int = 20) -> tuple[TableBatch, ...]:
    """Return what the newest runs wrote of a source table, from the run files.

    Args:
        pipeline: the declaration.
        table: the source table.
        limit: maximum number of runs to return.

    Cost: reads at most a hundred run files.
    """
    wanted = next(one for one in pipeline.tables if one.name == table)
    marts = [made.full_name for made in source_tables(pipeline, wanted).marts]
    found: list[TableBatch] = []
    for event in islice(run_ends(pipeline), 100):
        if (one := _batch(event, table, marts)) is not None:
            found.append(one)
        if len(found) == limit:
            break
    return tuple(found)


def _batch(event: Event, table: str, marts: Sequence[str]) -> TableBatch | None:
    """Return what a run wrote of a table; None if it wrote nothing, or its record is not readable."""
    try:
        run = event["run"]
        told = next((part for part in run["facets"][FACET]["tables"] if part["name"] == table), None)
        written = {one["name"]: one["outputFacets"]["frazil_commit"] for one in event.get("outputs", ())}
        commits = tuple(_commit(name, written[name]) for name in marts if name in written)
        if told is None or not (commits or told["files"]):
            return None
        return TableBatch(
            run_id=run["runId"],
            at=dt.datetime.fromisoformat(event["eventTime"]),
            batch=int(told["batch"] or 0),
            files=int(told["files"]),
            records=int(told["rows"]),
            bad=int(told["bad"]),
            changes=int(told["changes"]),
            quarantined=int(told["quarantined"]),
            commits=commits,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _commit(name: str, written: Event) -> MartCommit:
    counts = {count: written.get(count) for count in ("rows", "inserted", "updated", "deleted", "late")}
    return MartCommit(name=name, strategy=written.get("strategy"), **counts)


_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """A table of the lake.

    Attributes:
        name: the table with its namespace.
        kind: bronze, silver, quarantine or gold; of a mart ``current`` or ``history``.
        table: its source table; of an aggregate its own name.
        exists: whether a run has created it.
        batch: newest batch it holds, 0 for none.
        rows: rows by the counts of its files, as :attr:`frazil.iceberg.snapshot.TableSnapshot.rows`.
        size_bytes: size of the newest snapshot's files.
        snapshot_id: its newest snapshot; None without one.
        committed_at: time of the newest commit, in UTC; None without one.
        trouble: why its metadata cannot be read; None if it can.
    """

    name: str
    kind: str
    table: str
    exists: bool
    batch: int
    rows: int
    size_bytes: int
    snapshot_id: int | None
    committed_at: dt.datetime | None
    trouble: str | None = None


def listing(pipeline: Pipeline) -> Iterator[ListedTable]:
    """Yield every table of the declaration, in its order. Views are left out.

    Raises:
        NoLakeError: no table of the lake exists.

    Cost: reads the metadata file of each table.
    """
    located = tables(pipeline)

    def look(made: LakeTable) -> ListedTable:
        location, trouble = located.get(made.key), None
        try:
            newest = read_snapshot(location)
        except StorageError as error:
            newest, trouble = TableSnapshot(), error.message
        return ListedTable(
            name=made.full_name,
            kind=made.role if made.mart is None else made.mart.kind,
            table=made.made_of,
            exists=location is not None,
            batch=newest.batch,
            rows=newest.rows,
            size_bytes=newest.size_bytes,
            snapshot_id=newest.snapshot_id,
            committed_at=newest.committed_at,
            trouble=trouble,
        )

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(look, [made for made in lake_tables(pipeline) if made.role != "view"])
