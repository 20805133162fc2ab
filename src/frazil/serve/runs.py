"""Past and running runs: their records, and the commits that the tables still know of."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from frazil.audit.run_files import run_files
from frazil.errors import DeclarationError, StorageError
from frazil.iceberg.metadata import metadata_of
from frazil.iceberg.snapshot import BOOKMARK, RUN_ID
from frazil.runner.past_runs import FACET, open_run_of, pipeline_of
from frazil.serve.tables import tables
from frazil.spec.tables import lake_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.audit.run_files import RunFiles
    from frazil.spec import Pipeline

RunState: TypeAlias = Literal["running", "done", "failed", "interrupted", "killed"]
"""State of a run; *killed*: it has no end, and its process is gone."""

_NOTES: Final = "frazil."
_ENDS: Final[Mapping[str, RunState]] = {"COMPLETE": "done", "FAIL": "failed", "ABORT": "interrupted"}
_LATEST: Final = ("last", "latest")
_TABLES_AT_ONCE: Final = 8


class UnknownRunError(DeclarationError):
    """No record of the run."""

    code = "FZ188"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """A failure of a past run.

    Attributes:
        name: the failed source table, mart or aggregate.
        code, message, hint: the error.
    """

    name: str
    code: str
    message: str
    hint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """One table or aggregate of a run.

    Attributes:
        name: the source table, or ``gold.<name>``.
        outcome: as in :class:`frazil.RunReport`.
        batch, files, rows, bad, changes, quarantined: numbers of a source table; 0 for an aggregate.
        failures: its failures.
    """

    name: str
    outcome: str
    batch: int = 0
    files: int = 0
    rows: int = 0
    bad: int = 0
    changes: int = 0
    quarantined: int = 0
    failures: tuple[RunFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommit:
    """A commit of a run.

    Attributes:
        table: the table with its namespace.
        snapshot_id: id of the snapshot.
        committed_at: time of the commit, in UTC.
        rows: rows written to data files.
        notes: what the run noted of it, such as strategy, inserted, updated, deleted and late.
    """

    table: str
    snapshot_id: int
    committed_at: dt.datetime
    rows: int
    notes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run, from its record.

    Attributes:
        run_id: id of the run.
        state: *running*, *done*, *failed*, *interrupted* by an exception, or *killed*.
        began_at: its start in UTC; None if the record of the start is gone.
        ended_at: its end; None while it is running, and if it was killed.
        exit_code: exit code of its worst failure; None without an end.
        parts: tables and aggregates, in the order of the declaration; empty without an end.
        commits: its commits by time, as far as their snapshots have not expired; only :func:`past_run` reads them.
    """

    run_id: str
    state: RunState
    began_at: dt.datetime | None
    ended_at: dt.datetime | None
    exit_code: int | None
    parts: tuple[RunPart, ...] = ()
    commits: tuple[RunCommit, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Wall time; None without a start or an end."""
        return (
            None if self.began_at is None or self.ended_at is None else (self.ended_at - self.began_at).total_seconds()
        )

    @property
    def failures(self) -> tuple[RunFailure, ...]:
        """All failures, table by table."""
        return tuple(failure for part in self.parts for failure in part.failures)


def runs(pipeline: Pipeline, *, limit: int | None = None) -> Iterator[PastRun]:
    """Yield the recorded runs of a pipeline, newest first. Unreadable records are left out.

    Args:
        pipeline: the declaration.
        limit: maximum number of runs; None for all that are kept.

    Cost: lists the records once, and reads two small files for each run.
    """
    yield from islice(_all(pipeline), limit)


def past_run(pipeline: Pipeline, run: str = "latest") -> PastRun:
    """Return one run with its commits.

    Args:
        pipeline: the declaration.
        run: its id or the end of it, or ``latest``.

    Raises:
        UnknownRunError: no record of such a run is kept, or several match.

    Cost: reads records back to that run, and the metadata of every table.
    """
    found: list[PastRun] = []
    for one in _all(pipeline):
        if run in _LATEST or run == one.run_id:
            found = [one]
            break
        if run and one.run_id.endswith(run):
            found.append(one)
    if len(found) != 1:
        what = f"{len(found)} runs end with {run!r}" if found else f"no record of a run {run!r}"
        raise UnknownRunError(what, hint="frazil runs lists the newest; a run without work leaves no record")
    return _with_commits(pipeline, found[0])


def _all(pipeline: Pipeline) -> Iterator[PastRun]:
    is_newest = True
    for files in run_files(pipeline):
        if pipeline_of(files) == pipeline.pipeline:
            with suppress(KeyError, TypeError, ValueError, AttributeError):  # not ours, or of another version
                yield _past_run(pipeline, files, is_newest=is_newest)
            is_newest = False


def _past_run(pipeline: Pipeline, files: RunFiles, *, is_newest: bool) -> PastRun:
    start, end = files.start(), files.end()
    event: Mapping[str, Any] = end or start or {}
    began_at = None if start is None else dt.datetime.fromisoformat(start["eventTime"])
    run_id = event["run"]["runId"]
    if end is None:
        # Only the newest can be running: runs of a pipeline take turns.
        known = open_run_of(pipeline, files) if is_newest else None
        state: RunState = "running" if known is not None and known.is_running else "killed"
        return PastRun(run_id=run_id, state=state, began_at=began_at, ended_at=None, exit_code=None)
    told = event["run"]["facets"][FACET]
    return PastRun(
        run_id=run_id,
        state=_ENDS[event["eventType"]],
        began_at=began_at,
        ended_at=dt.datetime.fromisoformat(event["eventTime"]),
        exit_code=int(told["exitCode"]),
        parts=tuple(map(_part, (*told["tables"], *told["gold"]))),
    )


def _part(told: Mapping[str, Any]) -> RunPart:
    counts = ("batch", "files", "rows", "bad", "changes", "quarantined")
    return RunPart(
        name=told["name"],
        outcome=told["outcome"],
        **{name: int(told.get(name, 0)) for name in counts},
        failures=tuple(
            RunFailure(name=one["name"], code=one["code"], message=one["message"], hint=one["hint"])
            for one in told["errors"]
        ),
    )


def _with_commits(pipeline: Pipeline, run: PastRun) -> PastRun:
    names = {made.key: made.full_name for made in lake_tables(pipeline)}
    located = {key: location for key, location in _located(pipeline).items() if key in names}
    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        found = pool.map(lambda one: _commits(names[one[0]], one[1], run.run_id), located.items())
    commits = sorted((one for some in found for one in some), key=lambda one: (one.committed_at, one.table))
    return replace(run, commits=tuple(commits))


def _located(pipeline: Pipeline) -> Mapping[tuple[str, str], Any]:
    try:
        return tables(pipeline)
    except StorageError:
        return {}  # a first run that failed before its first commit


def _commits(table: str, location: str, run_id: str) -> list[RunCommit]:
    try:
        snapshots = metadata_of(location).get("snapshots", ())
    except StorageError:
        return []  # a damaged table hides no run; frazil status names it
    return [
        RunCommit(
            table=table,
            snapshot_id=int(one["snapshot-id"]),
            committed_at=dt.datetime.fromtimestamp(one["timestamp-ms"] / 1000, dt.UTC),
            rows=int(one["summary"].get("added-records", 0)),
            notes={
                name.removeprefix(_NOTES): text
                for name, text in one["summary"].items()
                if name.startswith(_NOTES) and name not in (RUN_ID, BOOKMARK)
            },
        )
        for one in snapshots
        if one.get("summary", {}).get(RUN_ID) == run_id
    ]
