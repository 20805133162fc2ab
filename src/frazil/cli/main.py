"""The commands."""

from __future__ import annotations

from typing import Annotated

import typer

from frazil.cli.capture import capture
from frazil.cli.check import check
from frazil.cli.console import out
from frazil.cli.cut import cut
from frazil.cli.diff import diff
from frazil.cli.doctor import doctor
from frazil.cli.drop import drop
from frazil.cli.erase import erase
from frazil.cli.export import export
from frazil.cli.generate import generate
from frazil.cli.init import init
from frazil.cli.key import key
from frazil.cli.maintain import maintain
from frazil.cli.plan import plan
from frazil.cli.quarantine import quarantine
from frazil.cli.query import query
from frazil.cli.rebuild import rebuild
from frazil.cli.replay import replay
from frazil.cli.rollback import rollback
from frazil.cli.run import run
from frazil.cli.schema import schema
from frazil.cli.serve import serve
from frazil.cli.sql import sql
from frazil.cli.status import status
from frazil.cli.test import test
from frazil.cli.validate import validate
from frazil.cli.watch import watch


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


for _command in (
    *(init, generate, validate, doctor, sql),
    *(plan, run, watch, capture, rebuild, replay, cut, rollback, maintain, drop, erase),
    *(status, check, test, query, diff, key, schema, quarantine, export, serve),
):
    app.command()(_command)
