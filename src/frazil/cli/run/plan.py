"""``frazil plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, print_json
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.cli.render.plan import show_plan


def plan(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[bool, typer.Option("--full-refresh", help="As for run.")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show what a run would do, and do nothing; what cannot be planned is an error of its table alone."""
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.plan(path, select=select or (), rebuild=full_refresh)
        if as_json:
            print_json(found.as_values())
        else:
            show_plan(found)
        if found.exit_code:
            raise typer.Exit(found.exit_code)
