"""Commands that write to the lake: run, rebuild, maintain."""

from __future__ import annotations

import datetime as dt
import json
import traceback
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli import show
from frazil.cli.console import err, out, print_json, told
from frazil.cli.interrupt import gently
from frazil.cli.options import AsJson, Select, Verbose, Where, Yes
from frazil.cli.progress import Progress
from frazil.engine.report import RunFailedError, RunReport
from frazil.errors import DeclarationError

if TYPE_CHECKING:
    from frazil.spec import Pipeline
    from frazil.steps import Step

FailFast = Annotated[bool, typer.Option("--fail-fast", help="Begin no further table once one has failed.")]


class NotConfirmedError(DeclarationError):
    """A command that asks first was not answered with yes."""

    code = "FZ107"


_SHORT_BYTES = 16_000_000
"""Runs that take no more are done before Java's optimising compiler pays."""


def run(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[bool, typer.Option("--full-refresh", help="Rebuild silver and marts from bronze.")] = False,
    fail_fast: FailFast = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Bring every table up to date; with nothing new, commit nothing. A table that fails stops no other."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.spec.parse import load  # noqa: PLC0415

        how = _How(select=select or [], rebuild=full_refresh, fail_fast=fail_fast, as_json=as_json, verbose=verbose)
        _run(load(path), how)


def rebuild(
    path: Where = Path(),
    *,
    select: Select = None,
    yes: Yes = False,
    fail_fast: FailFast = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Rebuild silver and marts from bronze; the rows are the same as before."""
    with told(as_json=as_json, verbose=verbose):
        from frazil.spec.parse import load  # noqa: PLC0415

        pipeline = load(path)
        if not yes:
            tables = _tell_rebuild(pipeline, select or [])
            confirm(f"Rebuild {tables} from bronze?", f"nothing was rebuilt; it would have been {tables}")
        how = _How(select=select or [], rebuild=True, fail_fast=fail_fast, as_json=as_json, verbose=verbose)
        _run(pipeline, how)


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
            "size before",
            "size after",
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
        from frazil.spec.select import selected  # noqa: PLC0415

        pipeline = load(path)
        stop = Event()
        with Progress(quiet=as_json or not err.is_terminal) as progress:
            from frazil.engine.watch import watch as follow  # noqa: PLC0415
            from frazil.lake.session import spark_session  # noqa: PLC0415

            def ran(report: RunReport, lag_seconds: float) -> None:
                if as_json:
                    out.out(json.dumps({**report.as_values(), "lag_seconds": round(lag_seconds, 3)}, default=str))
                else:
                    show.watch_line(report, lag_seconds)

            def tell(text: str) -> None:
                err.print(f"{dt.datetime.now(dt.UTC):%H:%M:%S}  {text}", style="yellow", markup=False)

            for line in show.watched(pipeline, selected(pipeline, select or [])):
                err.print(line, markup=False)
            spark = spark_session(pipeline, verbose=verbose)
            with gently(stop.set):
                exit_code = follow(
                    pipeline,
                    spark,
                    stop,
                    select=select or [],
                    every_seconds=every,
                    idle_seconds=idle,
                    listener=progress,
                    ran=ran,
                    tell=tell,
                )
        err.print("stopped; everything that was begun is done")
        if exit_code:
            raise typer.Exit(exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    """The options of a run."""

    select: list[str]
    rebuild: bool
    fail_fast: bool
    as_json: bool
    verbose: bool


def _run(pipeline: Pipeline, how: _How) -> None:
    """Run, show what was done and what failed, and end with the exit code of the worst failure."""
    cause: BaseException | None = None
    try:
        report = _done(pipeline, how)
    except RunFailedError as error:
        report, cause = error.report, error.__cause__
    if how.as_json:
        print_json(report.as_values())
        show.failures(report)
    else:
        show.run_report(report)
    if how.verbose and cause is not None:
        err.print("".join(traceback.format_exception(cause)), markup=False)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _done(pipeline: Pipeline, how: _How) -> RunReport:
    from frazil.errors import StorageError  # noqa: PLC0415
    from frazil.plan.size import size_bytes  # noqa: PLC0415

    plan = None if how.rebuild else _planned(pipeline, how.select)
    if plan is not None and not plan[0] and not plan[1].errors:
        return plan[1]
    # Where the lake cannot be read from here, the run may find any amount of work.
    is_known = plan is not None and all(failure.exit_code != StorageError.exit_code for failure in plan[1].errors)
    size = size_bytes(plan[0]) if plan is not None and is_known else None
    short = size is not None and size <= _SHORT_BYTES
    with Progress(quiet=how.as_json) as progress:
        # Only now, so that a mistake in the declaration shows before Spark is even loaded.
        from frazil.engine.run import run as work  # noqa: PLC0415

        return work(
            pipeline,
            select=how.select,
            rebuild=how.rebuild,
            fail_fast=how.fail_fast,
            listener=progress,
            short=short,
            verbose=how.verbose,
        )


def _planned(pipeline: Pipeline, select: list[str]) -> tuple[tuple[Step, ...], RunReport] | None:
    """Tell without a JVM what there is to do, and report it if that is nothing; None in doubt: the run finds out."""
    from frazil.engine.record import record_idle  # noqa: PLC0415
    from frazil.engine.settle import report_of, settle  # noqa: PLC0415
    from frazil.errors import SetupError, StorageError  # noqa: PLC0415
    from frazil.lake.damage import DamagedTableError  # noqa: PLC0415
    from frazil.plan.build import build  # noqa: PLC0415
    from frazil.serve.state import state  # noqa: PLC0415
    from frazil.spec.select import selected  # noqa: PLC0415

    names = selected(pipeline, select)
    try:
        found = state(pipeline, names)
    except DamagedTableError:
        raise
    except (StorageError, SetupError):  # as a client of the catalog that only the commands without Java need
        return None
    steps, report = build(pipeline, found, tables=names), report_of(pipeline, names)
    settle(report, pipeline, found, steps)
    if not steps and not report.errors:
        record_idle(pipeline, report)
    return steps, report


def confirm(question: str, otherwise: str) -> None:
    """Ask a question; anything but a yes is an error, so that no script takes it for done."""
    try:
        if typer.confirm(question, err=True):
            return
    except typer.Abort:
        err.print()
    raise NotConfirmedError(otherwise, hint="--yes answers the question")


def _tell_rebuild(pipeline: Pipeline, select: list[str]) -> str:
    """Print what a rebuild would write again; give how many tables that is, in words."""
    from frazil.serve.state import state  # noqa: PLC0415
    from frazil.spec.amount import counted  # noqa: PLC0415
    from frazil.spec.select import selected  # noqa: PLC0415

    names = selected(pipeline, select)
    found, marts = state(pipeline, names), pipeline.lake.namespaces.marts
    for name in names:
        stand = found.tables.get(name)
        if stand is None:
            err.print(f"{name}: {found.failed[name].message}", style="yellow", markup=False)
            continue
        rows = ", ".join(f"{marts}.{mart} ({counted(count, 'row')})" for mart, count in stand.rows.items())
        err.print(f"{name}: silver and {rows}, from {counted(stand.bronze, 'batch', 'batches')}", markup=False)
    return counted(len(names), "table")


COMMANDS = {"run": run, "watch": watch, "rebuild": rebuild, "maintain": maintain}
