"""Pages of runs: all of them at ``/runs``, newest first, and one with its commits and failures at ``/runs/<run>``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.ui.draw.scale import WIDTH, time_axis
from frazil.ui.pages import Page

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.spec import Pipeline


_RUNS: Final = 100


def show_runs(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the newest runs."""
    del request
    found = api.runs(pipeline, limit=_RUNS)
    return {"runs": found, "most": _RUNS, "live": any(run.state == "running" for run in found[:1])}


RUNS: Final = Page(path="/runs", template="runs.html", show=show_runs, label="Runs")


def show_run(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return one run."""
    run = api.past_run(pipeline, request.path_params["run"])
    times = [one.committed_at for one in run.commits]
    ended = run.ended_at or max(times, default=None)
    axis = None if run.began_at is None or ended is None else time_axis(run.began_at, times, ended)
    return {"run": run, "axis": axis, "width": WIDTH, "live": run.state == "running"}


RUN: Final = Page(path="/runs/{run}", template="run.html", show=show_run)
