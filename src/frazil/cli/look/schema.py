"""``frazil schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, print_json
from frazil.cli.options import AsJson, Verbose, local
from frazil.cli.render.schema import show_schema


def schema(
    table: Annotated[str, typer.Argument(help="The source table's name.")],
    *,
    path: Annotated[
        Path, typer.Option("--path", "-p", parser=local, metavar="PATH", help="The declaration, or its folder.")
    ] = Path(),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show the columns of a table, and every layout that its source has delivered."""
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.schema(path, table)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            show_schema(found)
