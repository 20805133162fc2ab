"""``frazil watch``."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import err, error_exit, out
from frazil.cli.interrupt import gently
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.cli.progress import Progress
from frazil.cli.render.watch import show_watch_line, watched

if TYPE_CHECKING:
    from frazil.runner.report.report import RunReport


def watch(
    path: Where = Path(),
    *,
    select: Select = None,
    every: Annotated[float, typer.Option(help="Seconds between listings while files arrive.", min=0.05)] = 0.25,
    idle: Annotated[float, typer.Option(help="Longest pause in seconds while nothing arrives.", min=0.05)] = 0.5,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Follow the landing folders with a warm session until SIGTERM or Ctrl-C; finish the run in progress first."""
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        followed = api.selection(pipeline, select or ())
        with Progress(quiet=as_json or not err.is_terminal) as progress:
            for line in watched(pipeline, followed.tables):
                err.print(line, markup=False)
            options = api.WatchOptions(
                every_seconds=every,
                idle_seconds=idle,
                listener=progress,
                ran=_print_values if as_json else show_watch_line,
                tell=_tell,
            )
            stop, spark = Event(), api.session(pipeline, verbose=verbose)
            with gently(stop.set, "stopping when the run that has begun is done; once more to interrupt it"):
                exit_code = api.watch(pipeline, stop, spark=spark, select=select or (), options=options)
        err.print("stopped; everything that was begun is done")
        if exit_code:
            raise typer.Exit(exit_code)


def _print_values(report: RunReport, lag_seconds: float) -> None:
    out.out(json.dumps({**report.as_values(), "lag_seconds": round(lag_seconds, 3)}, default=str))


def _tell(text: str) -> None:
    err.print(f"{dt.datetime.now(dt.UTC):%H:%M:%S}  {text}", style="yellow", markup=False)
