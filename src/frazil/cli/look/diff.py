"""``frazil diff``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, print_json
from frazil.cli.options import AsJson, Verbose, local


def diff(
    mart: Annotated[str, typer.Argument(help="The mart's name.")],
    *,
    begin: Annotated[str, typer.Option("--from", metavar="POINT", help="A time (UTC), a snapshot, a cut, or batch:N.")],
    end: Annotated[str | None, typer.Option("--to", metavar="POINT", help="Another such point; left out, now.")] = None,
    path: Annotated[
        Path, typer.Option("--path", "-p", parser=local, metavar="PATH", help="The declaration, or its folder.")
    ] = Path(),
    limit: Annotated[int, typer.Option(min=0, help="Rows to show at most; all are counted.")] = 20,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show what changed in a mart between two points: counts, and rows with old and new values."""
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.diff(path, mart, begin, end, limit=limit)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            from frazil.cli.render.diff import show_diff  # noqa: PLC0415

            show_diff(found)
