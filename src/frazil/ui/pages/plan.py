"""``/plan``: what the next run would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.plan.explain import explain
from frazil.steps import Ingest, Normalize, RefreshGold, UpdateMart
from frazil.ui.page import Page

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.plan.plan import Plan
    from frazil.spec import Pipeline
    from frazil.steps import Step

_LISTED: Final = 200
_GOLD: Final = "gold"


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the steps, table by table, with what keeps tables from being planned."""
    asked = request.query_params.get("table")
    plan = api.plan(pipeline, select=[asked] if asked else ())
    return {
        "plan": plan,
        "asked": asked,
        "groups": list(_groups(plan).items())[:_LISTED],
        "tables": len({step.table for step in plan.steps if not isinstance(step, RefreshGold)}),
        "files": sum(len(step.files) for step in plan.steps if isinstance(step, Ingest)),
        "rebuilds": sum(bool(getattr(step, "rebuild", False)) for step in plan.steps),
    }


def _groups(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Return the steps of each table, and of all aggregates."""
    found: dict[str, list[dict[str, Any]]] = {}
    for step in plan.steps:
        found.setdefault(_GOLD if isinstance(step, RefreshGold) else step.table, []).append(_shown(step))
    return found


def _shown(step: Step) -> dict[str, Any]:
    """Return a step's first line without its table, its other lines, and whether it computes a table again."""
    first, *more = explain(step).splitlines()
    return {
        "what": first.partition(": ")[2],
        "more": more,
        "rebuild": isinstance(step, Normalize | UpdateMart) and step.rebuild,
    }


PAGE: Final = Page(path="/plan", template="plan.html", show=show, label="Plan")
