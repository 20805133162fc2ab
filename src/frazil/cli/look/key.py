"""``frazil key``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import err, error_exit, print_json
from frazil.cli.options import AsJson, Verbose, local
from frazil.cli.render.key import named, show_key

_UNKNOWN_KEY = 2


def key(
    table: Annotated[str, typer.Argument(help="The source table's name.")],
    value: Annotated[list[str], typer.Argument(help="The key: its values in the order of keys.")],
    *,
    path: Annotated[
        Path, typer.Option("--path", "-p", parser=local, metavar="PATH", help="The declaration, or its folder.")
    ] = Path(),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Explain why a row looks as it does: its changes from bronze to marts, in order; exit 2 for an unknown key."""
    with error_exit(as_json=as_json, verbose=verbose):
        story = api.key(path, table, value)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(story))
        elif story.is_known:
            show_key(story)
        if not story.is_known:
            err.print(f"{story.table}: no record, change or row has {named(story)}", style="yellow", markup=False)
            raise typer.Exit(_UNKNOWN_KEY)
