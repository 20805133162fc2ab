"""``frazil plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import err, error_exit, out, print_json
from frazil.cli.notes import show_failures, show_notes
from frazil.cli.options import AsJson, Select, Verbose, Where, local
from frazil.plan.explain import explain
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frazil.plan.plan import Plan


def plan(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[bool, typer.Option("--full-refresh", help="Plan a rebuild of silver and marts.")] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", parser=local, metavar="FILE", help="Approve the plan: write it for frazil run --plan."),
    ] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show what a run would do, without doing it.

    A table that cannot be planned is reported as an error; all others are planned. A plan with
    errors is not saved.

    Example: frazil plan my_lake --select orders --save plan.json
    """
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.plan(path, select=select or (), rebuild=full_refresh)
        if as_json:
            print_json(found.as_values())
        else:
            show_plan(found)
        if found.exit_code:
            raise typer.Exit(found.exit_code)
        if save is not None:
            api.save_plan(found, save, select=select or ())
            err.print(f"approved in {save}; do this plan only: frazil run --plan {save}", markup=False)


def show_plan(plan: Plan) -> None:
    """Print the steps of a plan, its notes, and the errors of tables that cannot be planned."""
    space = plan.pipeline.lake.namespaces.gold
    for step in plan.steps:
        out.print(explain(step), markup=False)
    show_notes(plan.passed, plan.warnings, {f"{space}.{name}": why for name, why in plan.gold_left.items()})
    for captured, tables in plan.captures.items():
        if plan.waiting.get(captured) == {}:
            continue  # capture fails for all of its tables
        out.print(_captured(captured, tables, plan.waiting.get(captured)), markup=False)
    if plan.steps or not plan.errors:
        todo = f"{counted(len(plan.steps), 'step')}; do {'it' if len(plan.steps) == 1 else 'them'}: frazil run"
        idle = "to capture and apply them: frazil run" if _may_wait(plan) else "nothing to do"
        out.print(todo if plan.steps else idle, style="green", markup=False)
    show_failures(plan.errors)


def _captured(captured: str, tables: Sequence[str], waiting: Mapping[str, int | None] | str | None) -> str:
    if waiting is None:
        return f"{', '.join(tables)}: a run captures {captured} first; the plan shows only what was captured before"
    if isinstance(waiting, str):
        return f"{', '.join(tables)}: number of changes at {captured} unknown: {waiting}"
    counts = (
        f"{table}: " + ("all rows are to be loaded" if count is None else f"{counted(count, 'change')} to be captured")
        for table, count in waiting.items()
    )
    return f"{captured}: {', '.join(counts)}"


def _may_wait(plan: Plan) -> bool:
    """Return whether a run may find changes that are not captured yet."""
    known = map(plan.waiting.get, plan.captures)
    return any(of is None or isinstance(of, str) or any(count != 0 for count in of.values()) for of in known)


def show_rebuild(plan: Plan) -> str:
    """Print the tables that a rebuild replaces to standard error, and return their number as text."""
    space = plan.pipeline.lake.namespaces.marts
    for name in plan.selection.tables:
        stand = plan.state.tables.get(name)
        if stand is None:
            err.print(f"{name}: {plan.failed[name].message}", style="yellow", markup=False)
            continue
        rows = ", ".join(f"{space}.{mart} ({counted(count, 'row')})" for mart, count in stand.rows.items())
        err.print(f"{name}: silver and {rows}, from {counted(stand.bronze, 'batch', 'batches')}", markup=False)
    return counted(len(plan.selection.tables), "table")
