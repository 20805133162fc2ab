"""``/runs/<run>``: one run with its commits on a time axis, and its failures with the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.ui.draw.scale import WIDTH, time_axis
from frazil.ui.page import Page

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.spec import Pipeline


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return one run."""
    run = api.past_run(pipeline, request.path_params["run"])
    times = [one.committed_at for one in run.commits]
    ended = run.ended_at or max(times, default=None)
    axis = None if run.began_at is None or ended is None else time_axis(run.began_at, times, ended)
    return {"run": run, "axis": axis, "width": WIDTH, "live": run.state == "running"}


PAGE: Final = Page(path="/runs/{run}", template="run.html", show=show)
