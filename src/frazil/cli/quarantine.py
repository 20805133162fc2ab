"""``frazil quarantine``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, print_json
from frazil.cli.options import AsJson, Verbose, Where
from frazil.cli.render.quarantine import show_quarantine


def quarantine(
    path: Where = Path(),
    *,
    table: Annotated[str | None, typer.Option("--table", "-t", help="A source table, to see its records.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Records at most.")] = 20,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show which rules records break, and with --table the records."""
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.quarantine(path, table, limit=limit)
        if as_json:
            from frazil.serve.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            show_quarantine(found)
