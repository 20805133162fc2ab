"""``frazil run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import confirm, error_exit
from frazil.cli.options import AsJson, FailFast, Select, Verbose, Where, Yes, local
from frazil.cli.reporting import run_and_report
from frazil.cli.run.plan import show_rebuild


def run(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Rebuild silver and marts from bronze. It asks first.")
    ] = False,
    approved: Annotated[
        Path | None,
        typer.Option("--plan", parser=local, metavar="FILE", help="Do only this plan, from: frazil plan --save FILE"),
    ] = None,
    yes: Yes = False,
    fail_fast: FailFast = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Bring every table up to date; a failed table does not stop the others.

    Without new files a run commits nothing. With --plan it captures nothing, and refuses to begin
    if the plan is not the same any more.

    Example: frazil run my_lake --select orders+
    """
    if approved is not None and (select or full_refresh):
        raise typer.BadParameter("--plan has its own tables: leave out --select, --exclude and --full-refresh")
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        plan = None if approved is None else api.approved_plan(pipeline, approved)
        if full_refresh and not yes:
            plan = api.plan(pipeline, select=select or (), rebuild=True)
            if plan.selection.tables:  # an aggregate is computed again at any time
                tables = show_rebuild(plan)
                confirm(pipeline, f"Rebuild {tables} from bronze?", f"nothing was rebuilt; it would have been {tables}")
        run_and_report(
            pipeline,
            lambda options: api.run(pipeline, plan=plan, select=select or (), rebuild=full_refresh, options=options),
            as_json=as_json,
            fail_fast=fail_fast,
            verbose=verbose,
        )
