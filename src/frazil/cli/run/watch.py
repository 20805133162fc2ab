"""``frazil watch``."""

from __future__ import annotations

import datetime as dt
import json
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import err, error_exit, out
from frazil.cli.interrupt import gently
from frazil.cli.options import AsJson, MetricsHost, MetricsPort, Select, Verbose, Where
from frazil.cli.progress import Progress
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from frazil.runner.report import RunReport
    from frazil.spec import Pipeline


def watch(
    path: Where = Path(),
    *,
    select: Select = None,
    every: Annotated[float, typer.Option(help="Seconds between listings while files arrive.", min=0.05)] = 0.25,
    idle: Annotated[float, typer.Option(help="Longest pause in seconds while nothing arrives.", min=0.05)] = 0.5,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run whenever new files arrive, with a warm session, until Ctrl-C or SIGTERM.

    The run in progress is finished first.

    Example: frazil watch my_lake --metrics-port 9464
    """
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        followed = api.selection(pipeline, select or ())
        with Progress(quiet=as_json or not err.is_terminal, first="start Spark") as progress:
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
                metrics = None if metrics_port is None else (metrics_host, metrics_port)
                chosen = select or ()
                exit_code = api.watch(pipeline, stop, spark=spark, select=chosen, options=options, metrics=metrics)
        err.print("stopped; everything that was begun is done")
        if exit_code:
            raise typer.Exit(exit_code)


def _print_values(report: RunReport, lag_seconds: float) -> None:
    out.out(json.dumps({**report.as_values(), "lag_seconds": round(lag_seconds, 3)}, default=str))


def _tell(text: str) -> None:
    err.print(f"{dt.datetime.now(dt.UTC):%H:%M:%S}  {text}", style="yellow", markup=False)


def show_watch_line(report: RunReport, lag_seconds: float) -> None:
    """Print one run of a watch on a line: time, numbers, and lag behind its newest file."""
    files, rows = sum(table.files for table in report.tables), sum(table.rows + table.bad for table in report.tables)
    # All marts of a table count the same changes as late.
    late = sum(max((mart.late for mart in table.marts), default=0) for table in report.tables)
    bad = sum(table.quarantined for table in report.tables)
    notes = "".join(f", {count:,} {what}" for what, count in (("late", late), ("quarantined", bad)) if count)
    now, read = f"{dt.datetime.now(dt.UTC):%H:%M:%S}", f"{counted(files, 'file')}, {counted(rows, 'record')}"
    out.print(f"{now}  {read}{notes}  lag {lag_seconds:.1f} s", markup=False)


def watched(pipeline: Pipeline, names: Collection[str]) -> Iterator[str]:
    """Return lines with the watched tables and their folders."""
    yield f"watching {counted(len(names), 'table')}"
    for table in pipeline.tables:
        if table.name in names:
            yield f"  {table.name}: {', '.join(chain.from_iterable(table.source.locations.values()))}"
