"""Current failures and the state of the newest run, from the records of runs."""

from __future__ import annotations

import datetime as dt
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.audit.run_files import run_files
from frazil.catalog.lock import holder, lease_holder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from frazil.audit.run_files import RunFiles
    from frazil.spec import Pipeline

FACET: Final = "frazil_run"
"""Name of Frazil's own facet in an event."""

_SETTLED: Final = ("done", "nothing new")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFailure:
    """A failure that no later run has resolved.

    Attributes:
        name: the failed source table, mart or aggregate.
        run_id, at: the newest run with this failure, and its end in UTC.
        code, message, hint: the error.
    """

    name: str
    run_id: str
    at: dt.datetime
    code: str
    message: str
    hint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """The newest run, if it has a start and no end; if ``is_running`` is false it was interrupted or killed."""

    run_id: str
    began_at: dt.datetime
    is_running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Current failures and the open run.

    Attributes:
        failures: source table, or aggregate as ``gold.<name>`` -> failures of the newest run that attempted it.
        open_run: the newest run, if it has not ended.
    """

    failures: Mapping[str, tuple[PastFailure, ...]]
    open_run: OpenRun | None

    def __bool__(self) -> bool:
        return bool(self.failures or (self.open_run and not self.open_run.is_running))


def standing(pipeline: Pipeline, names: Collection[str]) -> Standing:
    """Return the current failures, from the newest run backwards until every name was attempted.

    Args:
        pipeline: the declaration.
        names: source tables, and aggregates as ``gold.<name>``.

    Cost: reads one record if the newest run attempted all names; at most all records.
    """
    open_run: OpenRun | None = None
    failures: dict[str, tuple[PastFailure, ...]] = {}
    waiting = {*names}
    mine = (run for run in run_files(pipeline) if pipeline_of(run) == pipeline.pipeline)
    for number, run in enumerate(mine):
        end = run.end()
        if end is None:
            open_run = open_run_of(pipeline, run) if number == 0 else open_run
            continue
        try:
            met = _met(end)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue  # not ours, or of another version
        for name, failed in met.items():
            if name in waiting:
                waiting.discard(name)
                if failed:
                    failures[name] = failed
        if not waiting:
            break
    return Standing(failures=failures, open_run=open_run)


def newest_open_run(pipeline: Pipeline) -> OpenRun | None:
    """Return the newest run if it has not ended.

    Cost: reads its small record of the start, and those of newer runs of other pipelines in the warehouse.
    """
    mine = (run for run in run_files(pipeline) if pipeline_of(run) == pipeline.pipeline)
    newest = next(mine, None)
    return None if newest is None or newest.end_in is not None else open_run_of(pipeline, newest)


def pipeline_of(run: RunFiles) -> object:
    """Return the pipeline of a run; several pipelines may share a warehouse."""
    try:
        event: Mapping[str, Any] = run.start() or run.end() or {}
        return event["job"]["name"]
    except (KeyError, TypeError):
        return None


def _met(event: Mapping[str, Any]) -> dict[str, tuple[PastFailure, ...]]:
    """Return the tables and aggregates that a run attempted, with their failures."""
    run = event["run"]
    told, at = run["facets"][FACET], dt.datetime.fromisoformat(event["eventTime"])
    return {
        part["name"]: tuple(
            PastFailure(
                name=error["name"],
                run_id=run["runId"],
                at=at,
                code=error["code"],
                message=error["message"],
                hint=error["hint"],
            )
            for error in part["errors"]
        )
        for part in (*told["tables"], *told["gold"])
        if part["errors"] or part["outcome"] in _SETTLED
    }


def open_run_of(pipeline: Pipeline, run: RunFiles) -> OpenRun | None:
    """Return a run that has a start and no end; None if its record is of another version."""
    try:
        event: Mapping[str, Any] = run.start() or {}
        told = event["run"]["facets"][FACET]
        return OpenRun(
            run_id=event["run"]["runId"],
            began_at=dt.datetime.fromisoformat(event["eventTime"]),
            is_running=_is_at_work(pipeline, told["host"], int(told["processId"])),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _is_at_work(pipeline: Pipeline, host: str, process: int) -> bool:
    held = lease_holder(pipeline)
    if held is not None:
        return (held.host, held.process) == (host, process)
    return host == socket.gethostname() and holder(pipeline) == process and _is_alive(process)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
