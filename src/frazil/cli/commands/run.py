"""Commands that plan and run: ``plan``, ``run``, ``watch``, ``capture`` and ``replay``."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import confirm, err, error_exit, out, print_json, runnable
from frazil.cli.interrupt import gently
from frazil.cli.options import (
    AsJson,
    FailFast,
    MetricsHost,
    MetricsPort,
    OneTable,
    Select,
    Verbose,
    Where,
    Yes,
    local,
    one_of,
)
from frazil.cli.progress import Progress
from frazil.cli.reporting import landed_line, run_and_report, show_failures, show_notes
from frazil.plan.explain import explain, explain_captures
from frazil.spec.amount import counted
from frazil.steps import Normalize

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from frazil.plan.plan import Plan
    from frazil.runner.report import RunReport
    from frazil.sources.capture import Landed
    from frazil.spec import Pipeline


def plan(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[bool, typer.Option("--full-refresh", help="Plan a rebuild of silver and marts.")] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", parser=local, metavar="FILE", help="Approve the plan: write it for frazil run --plan."),
    ] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show what a run would do, without doing it.

    A table that cannot be planned is reported as an error; all others are planned. A plan with
    errors is not saved.

    Example: frazil plan my_lake --select orders --save plan.json
    """
    with error_exit(as_json=as_json, verbose=verbose):
        found = api.plan(path, select=select or (), rebuild=full_refresh)
        if as_json:
            print_json(found.as_values())
        else:
            show_plan(found)
        if found.exit_code:
            raise typer.Exit(found.exit_code)
        if save is not None:
            api.save_plan(found, save, select=select or ())
            err.print(runnable(f"approved in {save}; do this plan only: frazil run --plan {save}"), markup=False)


def show_plan(plan: Plan) -> None:
    """Print the steps of a plan, its notes, and the errors of tables that cannot be planned."""
    space = plan.pipeline.lake.namespaces.gold
    for step in plan.steps:
        out.print(explain(step), markup=False)
    show_notes(plan.passed, plan.warnings, {f"{space}.{name}": why for name, why in plan.gold_left.items()})
    for line in explain_captures(plan.captures, plan.waiting):
        out.print(line, markup=False)
    if plan.steps or not plan.errors:
        todo = f"{counted(len(plan.steps), 'step')}; do {'it' if len(plan.steps) == 1 else 'them'}: frazil run"
        idle = "to capture and apply them: frazil run" if plan.may_capture else "nothing to do"
        out.print(runnable(todo if plan.steps else idle), style="green", markup=False)
    show_failures(plan.errors)


def show_rebuild(plan: Plan) -> str:
    """Print the tables that a rebuild replaces to standard error, and return their number as text."""
    space = plan.pipeline.lake.namespaces.marts
    for name in plan.selection.tables:
        stand = plan.state.tables.get(name)
        if stand is None:
            err.print(f"{name}: {plan.failed[name].message}", style="yellow", markup=False)
            continue
        rows = ", ".join(f"{space}.{mart} ({counted(count, 'row')})" for mart, count in stand.rows.items())
        err.print(f"{name}: silver and {rows}, from {counted(stand.bronze, 'batch', 'batches')}", markup=False)
    return counted(len(plan.selection.tables), "table")


def run(
    path: Where = Path(),
    *,
    select: Select = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Rebuild silver and marts from bronze. It asks first.")
    ] = False,
    approved: Annotated[
        Path | None,
        typer.Option("--plan", parser=local, metavar="FILE", help="Do only this plan, from: frazil plan --save FILE"),
    ] = None,
    yes: Yes = False,
    fail_fast: FailFast = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Bring every table up to date; a failed table does not stop the others.

    Without new files a run commits nothing. With --plan it captures nothing, and refuses to begin
    if the plan is not the same any more.

    Example: frazil run my_lake --select orders+
    """
    if approved is not None and (select or full_refresh):
        raise typer.BadParameter("--plan has its own tables: leave out --select, --exclude and --full-refresh")
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        plan = None if approved is None else api.approved_plan(pipeline, approved)
        if full_refresh and not yes:
            plan = api.plan(pipeline, select=select or (), rebuild=True)
            if plan.selection.tables:  # an aggregate is computed again at any time
                tables = show_rebuild(plan)
                confirm(pipeline, f"Rebuild {tables} from bronze?", f"nothing was rebuilt; it would have been {tables}")
        run_and_report(
            pipeline,
            lambda options: api.run(pipeline, plan=plan, select=select or (), rebuild=full_refresh, options=options),
            as_json=as_json,
            fail_fast=fail_fast,
            verbose=verbose,
        )


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
                (_print_landed if as_json else _print_line)(name, landed)
            return
        stop = Event()
        options = api.CaptureOptions(landed=_print_landed if as_json else _print_line, tell=_print_problem)
        with gently(stop.set, "stopping when what has begun is landed; once more to interrupt it"):
            metrics = None if metrics_port is None else (metrics_host, metrics_port)
            exit_code = api.capture(path, stop, select=select or (), options=options, metrics=metrics)
        err.print("stopped; everything that was begun is landed")
        if exit_code:
            raise typer.Exit(exit_code)


def _print_landed(name: str, landed: Landed) -> None:
    failed = {table: f"{error}" for table, error in landed.failed.items()}
    out.out(json.dumps({"capture": name, **asdict(replace(landed, failed={})), "failed": failed}))


def _print_line(name: str, landed: Landed) -> None:
    out.print(f"{dt.datetime.now(dt.UTC):%H:%M:%S}  {name}: {landed_line(landed)}", markup=False)


def _print_problem(name: str, text: str) -> None:
    err.print(f"{dt.datetime.now(dt.UTC):%H:%M:%S}  {name}: {text}", style="yellow", markup=False)


def replay(
    path: Where = Path(),
    *,
    one_table: OneTable = None,
    corrected: Annotated[
        Path | None,
        typer.Option(
            "--from",
            parser=local,
            metavar="FILE",
            help="Corrected records, from: frazil quarantine --select TABLE --to FILE",
        ),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Apply quarantined records again, after a fix of the declaration or with corrections.

    Each record keeps its old position among the changes.

    Example: frazil replay my_lake --select orders --from corrected.jsonl
    """
    table = one_of(one_table) if one_table or corrected is not None else None
    with error_exit(as_json=as_json, verbose=verbose):
        pipeline = api.load(path)
        what = _what(path, table, corrected)
        if not as_json:
            err.print(what, markup=False)
        if not yes:
            confirm(pipeline, "Replay?", "nothing was replayed")
        run_and_report(
            pipeline,
            lambda options: api.replay(pipeline, table=table, corrected=corrected, options=options),
            as_json=as_json,
            fail_fast=False,
            verbose=verbose,
        )


def _what(path: Path, table: str | None, corrected: Path | None) -> str:
    """Return what a replay would do, as text."""
    count = sum(rule.records for rule in api.quarantine(path, table, limit=0).rules)
    waiting = counted(count, "record")
    if table is not None and corrected is not None:
        judged = api.judge_corrections(path, table, corrected)
        given = counted(len(judged.corrections), "corrected record")
        return f"{given} of {waiting} in quarantine of {table}; {judged.text}"
    steps = api.plan(path, select=[table] if table else ()).steps
    rebuilt = sorted({step.table for step in steps if isinstance(step, Normalize) and step.rebuild})
    if rebuilt:
        return f"{waiting} in quarantine; silver and marts of {', '.join(rebuilt)} are rebuilt from bronze"
    if not count:
        return "nothing is in quarantine"
    return f"{waiting} in quarantine, and the declaration lets none of them through: they would break the same rules"
