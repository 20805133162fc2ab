"""``frazil run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit
from frazil.cli.options import AsJson, FailFast, Select, Verbose, Where
from frazil.cli.reporting import run_and_report


def run(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[bool, typer.Option("--full-refresh", help="Rebuild silver and marts from bronze.")] = False,
    fail_fast: FailFast = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Bring every table up to date; a failed table does not stop the others.

    Without new files a run commits nothing.
    """
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        run_and_report(
            pipeline,
            lambda options: api.run(pipeline, select=select or (), rebuild=full_refresh, options=options),
            as_json=as_json,
            fail_fast=fail_fast,
            verbose=verbose,
        )
