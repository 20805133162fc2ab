"""The commands."""

from __future__ import annotations

from typing import Annotated

import typer

from frazil.cli import look, make, remove, work
from frazil.cli.console import out


def _version(*, wanted: bool) -> None:
    if wanted:
        from frazil import __version__  # noqa: PLC0415

        out.print(f"frazil {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="frazil",
    help="Turn database changes into exact Apache Iceberg tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def frazil(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=lambda value: _version(wanted=value), is_eager=True)
    ] = False,
) -> None:
    """Turn database changes into exact Apache Iceberg tables."""


for _group in (make, work, look, remove):
    for _name, _command in _group.COMMANDS.items():
        app.command(_name)(_command)
