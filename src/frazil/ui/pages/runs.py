"""``/runs``: past and running runs, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.ui.page import Page

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.spec import Pipeline

_RUNS: Final = 100


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the newest runs."""
    del request
    found = api.runs(pipeline, limit=_RUNS)
    return {"runs": found, "most": _RUNS, "live": any(run.state == "running" for run in found[:1])}


PAGE: Final = Page(path="/runs", template="runs.html", show=show, label="Runs")
