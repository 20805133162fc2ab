"""Commands that write to the lake: run, rebuild, maintain."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli import show
from frazil.cli.console import err, out, print_json, told
from frazil.cli.options import AsJson, Select, Verbose, Where, Yes
from frazil.cli.progress import Progress
from frazil.engine.report import RunReport

if TYPE_CHECKING:
    from frazil.spec import Pipeline
    from frazil.steps import Step

_SHORT_BYTES = 16_000_000
"""Runs that take no more are done before Java's optimising compiler pays."""


def run(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Make silver and marts anew from bronze.")
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Bring every table level with its source; with nothing new, commit nothing."""
    with told(as_json=as_json, verbose=verbose):
        _report(_run(path, select or [], rebuild=full_refresh, quiet=as_json, verbose=verbose), as_json=as_json)


def rebuild(
    path: Where = Path(),
    *,
    select: Select = None,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make silver and marts anew from bronze; the rows are the same as before."""
    with told(as_json=as_json, verbose=verbose):
        if not yes and not typer.confirm("Make silver and marts anew from bronze?", err=True):
            raise typer.Abort
        _report(_run(path, select or [], rebuild=True, quiet=as_json, verbose=verbose), as_json=as_json)


def maintain(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Compact, expire snapshots, remove orphan files, compute statistics; bookmarks always stay."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.engine.maintain import maintain as work  # noqa: PLC0415
        from frazil.lake.session import spark_session  # noqa: PLC0415
        from frazil.spec.parse import load  # noqa: PLC0415

        pipeline = load(path)
        done = work(pipeline, spark_session(pipeline, verbose=verbose), select=select or [])
        if as_json:
            print_json([report.as_values() for report in done])
            return
        names = [
            "table",
            "files before",
            "files after",
            "MB before",
            "MB after",
            "snapshots expired",
            "orphans",
            "seconds",
        ]
        show.grid(None, names, [report.as_row() for report in done], right=set(names) - {"table"})


def watch(
    path: Where = Path(),
    *,
    select: Select = None,
    every: Annotated[float, typer.Option(help="Seconds between looks while files arrive.", min=0.05)] = 0.25,
    idle: Annotated[float, typer.Option(help="Longest pause in seconds while nothing arrives.", min=0.05)] = 0.5,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Follow the landing folders with a warm session until SIGTERM or Ctrl-C; a run that has begun is ended."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.spec.parse import load  # noqa: PLC0415

        pipeline = load(path)
        stop = Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda _number, _frame: stop.set())
        with Progress(quiet=as_json or not err.is_terminal) as progress:
            from frazil.engine.watch import watch as follow  # noqa: PLC0415
            from frazil.lake.session import spark_session  # noqa: PLC0415

            def ran(report: RunReport, lag_seconds: float) -> None:
                if as_json:
                    out.out(json.dumps({**report.as_values(), "lag_seconds": round(lag_seconds, 3)}))
                else:
                    show.watch_line(report, lag_seconds)

            spark = spark_session(pipeline, verbose=verbose)
            follow(
                pipeline,
                spark,
                stop,
                select=select or [],
                every_seconds=every,
                idle_seconds=idle,
                listener=progress,
                ran=ran,
            )
        err.print("stopped; everything that was begun is done")


def _run(path: Path, select: list[str], *, rebuild: bool, quiet: bool, verbose: bool) -> RunReport:
    from frazil.plan.size import size_bytes  # noqa: PLC0415
    from frazil.spec.parse import load  # noqa: PLC0415

    pipeline = load(path)
    steps = None if rebuild else _planned(pipeline, select)
    if steps is not None and not steps:
        return RunReport(pipeline=pipeline.pipeline)
    size = None if steps is None else size_bytes(steps)
    short = size is not None and size <= _SHORT_BYTES
    with Progress(quiet=quiet) as progress:
        # Only now, so that a mistake in the declaration shows before Spark is even loaded.
        from frazil.engine.run import run as work  # noqa: PLC0415

        return work(pipeline, select=select, rebuild=rebuild, listener=progress, short=short, verbose=verbose)


def _planned(pipeline: Pipeline, select: list[str]) -> tuple[Step, ...] | None:
    """Tell without a JVM what there is to do; None in doubt, then the run finds out."""
    from frazil.errors import StorageError  # noqa: PLC0415
    from frazil.plan.build import build  # noqa: PLC0415
    from frazil.serve.state import state  # noqa: PLC0415
    from frazil.spec.select import selected  # noqa: PLC0415

    try:
        return build(pipeline, state(pipeline), tables=selected(pipeline, select))
    except StorageError:
        return None


def _report(report: RunReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report.as_values())
    else:
        show.run_report(report)


COMMANDS = {"run": run, "watch": watch, "rebuild": rebuild, "maintain": maintain}
