"""``frazil capture``."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import err, error_exit, out
from frazil.cli.interrupt import gently
from frazil.cli.lag import landed_line
from frazil.cli.options import AsJson, MetricsHost, MetricsPort, Select, Where
from frazil.cli.progress import Progress

if TYPE_CHECKING:
    from frazil.sources.capture import Landed


def capture(
    path: Where = Path(),
    *,
    select: Select = None,
    reload: Annotated[
        list[str] | None,
        typer.Option("--reload", help="Land all rows of this table again, and end. May be repeated."),
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Land changes of databases and topics as files, without Spark, until Ctrl-C or SIGTERM.

    Example: frazil capture my_lake --select orders
    """
    if reload and select:
        raise typer.BadParameter("--reload names the tables; remove --select")
    with error_exit(as_json=as_json):
        if reload:
            with Progress(quiet=as_json, first=None) as listener:
                found = api.reload(path, reload, listener=listener)
            for name, landed in found:
                (_print_values if as_json else _print_line)(name, landed)
            return
        stop = Event()
        options = api.CaptureOptions(landed=_print_values if as_json else _print_line, tell=_tell)
        with gently(stop.set, "stopping when what has begun is landed; once more to interrupt it"):
            metrics = None if metrics_port is None else (metrics_host, metrics_port)
            exit_code = api.capture(path, stop, select=select or (), options=options, metrics=metrics)
        err.print("stopped; everything that was begun is landed")
        if exit_code:
            raise typer.Exit(exit_code)


def _print_values(name: str, landed: Landed) -> None:
    failed = {table: f"{error}" for table, error in landed.failed.items()}
    out.out(json.dumps({"capture": name, **asdict(replace(landed, failed={})), "failed": failed}))


def _print_line(name: str, landed: Landed) -> None:
    out.print(f"{dt.datetime.now(dt.UTC):%H:%M:%S}  {name}: {landed_line(landed)}", markup=False)


def _tell(name: str, text: str) -> None:
    err.print(f"{dt.datetime.now(dt.UTC):%H:%M:%S}  {name}: {text}", style="yellow", markup=False)
