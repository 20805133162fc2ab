"""``frazil rebuild``."""

from __future__ import annotations

from pathlib import Path

from frazil import api
from frazil.cli.console import confirm, error_exit
from frazil.cli.options import AsJson, FailFast, Select, Verbose, Where, Yes
from frazil.cli.reporting import run_and_report
from frazil.cli.run.plan import show_rebuild


def rebuild(
    path: Where = Path(),
    *,
    select: Select = None,
    yes: Yes = False,
    fail_fast: FailFast = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Rebuild silver and marts from bronze."""
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        plan = None
        if not yes:
            plan = api.plan(pipeline, select=select or (), rebuild=True)
            tables = show_rebuild(plan)
            confirm(f"Rebuild {tables} from bronze?", f"nothing was rebuilt; it would have been {tables}")
        run_and_report(
            pipeline,
            lambda options: api.rebuild(pipeline, plan=plan, select=select or (), options=options),
            as_json=as_json,
            fail_fast=fail_fast,
            verbose=verbose,
        )
