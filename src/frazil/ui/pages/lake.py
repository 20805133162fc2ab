"""Pages of the whole lake: ``/`` its tables, ``/plan`` the next run, ``/proofs`` of the laws, ``/runs`` past ones."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from frazil import api
from frazil.plan.explain import explain, explain_captures
from frazil.plan.plan import approved_values, digest
from frazil.serve.check.check import check
from frazil.steps import Ingest, Normalize, RefreshGold, UpdateMart
from frazil.ui.draw.scale import WIDTH, time_axis
from frazil.ui.pages import Page, number_asked

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.plan.plan import Plan
    from frazil.serve.overview import TableOverview
    from frazil.spec import Pipeline
    from frazil.steps import Step
    from frazil.ui.pages import Shown


_A_PAGE: Final = 50
_COUNTED: Final = 300
"""Lakes with more tables show no sums: they would need the metadata of every table."""


def show_overview(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the tables of one page, and sums over all tables of a small lake."""
    words = request.query_params.get("q", "").lower().split()
    names = [name for name, text in _names(pipeline) if all(word in text for word in words)]
    is_small = len(names) <= _COUNTED
    page = number_asked(request, "page", 0, len(names) // _A_PAGE)
    begin = page * _A_PAGE
    chosen = names[begin : begin + _A_PAGE]
    found = api.overview(pipeline, names if is_small else chosen)
    rows, shown = list(found.tables), {*chosen}
    sums = _sums(rows) if is_small else None
    return {
        "tables": [row for row in rows if row.table in shown],
        "found": len(names),
        "begin": begin,
        "page": page,
        "is_last": begin + _A_PAGE >= len(names),
        "sums": sums,
        "exists": found.exists,
        "open_run": found.open_run,
        "live": found.open_run is not None and found.open_run.is_running,
        "keys": {table.name: table.keys for table in pipeline.tables if table.name in shown},
    }


def _names(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return each table and aggregate, with the text to search in."""
    tables = [
        (table.name, " ".join([table.name, *map(table.mart_name, table.marts)]).lower()) for table in pipeline.tables
    ]
    return tables + [(f"gold.{gold.name}", f"gold.{gold.name}".lower()) for gold in pipeline.gold]


def _sums(rows: list[TableOverview]) -> dict[str, Any]:
    newest = [row.committed_at for row in rows if row.committed_at is not None]
    return {
        "newest": max(newest, default=None),
        "failed": sum(bool(row.results and row.results[0].error) or row.trouble is not None for row in rows),
        "behind": sum(any(mart.lag for mart in row.marts) for row in rows),
        "quarantined": sum(row.quarantined for row in rows),
        "changes": sum(row.changes for row in rows),
        "size_bytes": sum(mart.size_bytes for row in rows for mart in row.marts),
    }


OVERVIEW: Final = Page(path="/", template="overview.html", show=show_overview, label="Tables")


_LISTED_STEPS: Final = 200
_GOLD: Final = "gold"


def show_plan(request: Request, pipeline: Pipeline) -> Shown:
    """Return the steps, table by table, with what keeps tables from being planned; or the file that approves them."""
    asked = request.query_params.get("table")
    select = [asked] if asked else []
    plan = api.plan(pipeline, select=select)
    own = None if plan.errors else digest(plan)
    if approved := request.query_params.get("approve"):
        if approved != own:
            raise HTTPException(HTTPStatus.CONFLICT, "The plan is not the shown one any more: look at it again")
        headers = {"Content-Disposition": 'attachment; filename="plan.json"'}
        return JSONResponse(approved_values(plan, select), headers=headers)
    return {
        "plan": plan,
        "digest": own,
        "asked": asked,
        "captures": explain_captures(plan.captures, plan.waiting),
        "groups": list(_groups(plan).items())[:_LISTED_STEPS],
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


PLAN: Final = Page(path="/plan", template="plan.html", show=show_plan, label="Plan")


_LISTED_PROOFS: Final = 60


def show_proofs(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the findings for the table that the address names; without one only the choice of tables."""
    names = [table.name for table in pipeline.tables]
    name = request.query_params.get("table", "")
    # The command sends messages to those who asked for them; looking does not.
    found = check(pipeline, select=[name]) if name else []
    return {
        "names": names[:_LISTED_PROOFS],
        "name": name,
        "findings": sorted(found, key=lambda one: (one.ok is True, one.ok is None)),
        "counts": Counter(one.ok for one in found),
    }


PROOFS: Final = Page(path="/proofs", template="proofs.html", show=show_proofs, label="Proofs")


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
