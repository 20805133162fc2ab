"""``frazil quarantine``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, out, print_json
from frazil.cli.options import AsJson, Verbose, Where, local
from frazil.cli.render.quarantine import show_quarantine
from frazil.spec.amount import counted


def quarantine(
    path: Where = Path(),
    *,
    table: Annotated[str | None, typer.Option("--table", "-t", help="A source table, to see its records.")] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            parser=local,
            metavar="FILE",
            help="Write the records of --table to this file, to be corrected and replayed.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Records at most.")] = 20,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show which rules records break, and with --table the records."""
    if to is not None and table is None:
        raise typer.BadParameter("--to needs --table")
    with error_exit(as_json=as_json, verbose=verbose):
        if to is not None and table is not None:
            count = counted(api.quarantine_to(path, table, to), "record")
            out.print(
                f"{count} written to {to}: correct what stands in `record`, then "
                f"run: frazil replay --table {table} --from {to}",
                markup=False,
                soft_wrap=True,
            )
            return
        found = api.quarantine(path, table, limit=limit)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(found))
        else:
            show_quarantine(found)
