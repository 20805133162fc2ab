"""``frazil run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import confirm, error_exit
from frazil.cli.options import AsJson, FailFast, Select, Verbose, Where, Yes
from frazil.cli.reporting import run_and_report
from frazil.cli.run.plan import show_rebuild


def run(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Rebuild silver and marts from bronze. It asks first.")
    ] = False,
    yes: Yes = False,
    fail_fast: FailFast = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Bring every table up to date; a failed table does not stop the others.

    Without new files a run commits nothing.

    Example: frazil run my_lake --select orders+
    """
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        plan = None
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
