"""Output and exit codes of the commands that run a pipeline."""

from __future__ import annotations

import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from frazil.api import RunOptions
from frazil.cli.console import err, grid, out, print_json, runnable
from frazil.cli.progress import Progress
from frazil.runner.report import RunFailedError
from frazil.spec.amount import counted, sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from frazil.errors import Failure
    from frazil.runner.report import MaintainReport, RunReport, TableReport
    from frazil.serve.lag import CaptureLag
    from frazil.sources.capture import Landed
    from frazil.spec import Namespaces, Pipeline


def run_and_report(
    pipeline: Pipeline, run: Callable[[RunOptions], RunReport], *, as_json: bool, fail_fast: bool, verbose: bool
) -> None:
    """Run, show progress, results and failures, and end with the exit code of the worst failure.

    Args:
        pipeline: the declaration.
        run: runs the pipeline with the options that it gets.
        as_json: print only the report, as JSON.
        fail_fast: start no other table after a failure.
        verbose: show Spark's messages, and the stack of the worst failure.

    Raises:
        Exit: a table or an aggregate failed.
    """
    cause: BaseException | None = None
    try:
        with Progress(quiet=as_json) as progress:
            report = run(RunOptions(fail_fast=fail_fast, listener=progress, verbose=verbose))
    except RunFailedError as error:
        report, cause = error.report, error.__cause__
    if as_json:
        print_json(report.as_values())
        show_failures(report.errors)
    else:
        show_run(report, pipeline.lake.namespaces)
    if verbose and cause is not None:
        err.print("".join(traceback.format_exception(cause)), markup=False)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


_NAMES = ("table", "inserted", "updated", "deleted", "late", "written", "strategy", "seconds")


def show_run(report: RunReport, spaces: Namespaces) -> None:
    """Print the results of a run, one line for each mart, and then the failures."""
    rows: list[list[Any]] = []
    for table in report.tables:
        if table.outcome in ("done", "failed") and (table.jobs or table.marts):
            read = (
                f"{counted(table.files, 'file')}, {counted(table.rows + table.bad, 'record')}"
                if table.files
                else "no new files"
            )
            out.print(
                f"[bold]{table.table}[/]: {read}, {counted(table.changes, 'change')}, batch {table.batch}, "
                f"{counted(table.jobs, 'Spark job')}"
            )
            for mart in table.marts:
                counts = [mart.inserted, mart.updated, mart.deleted, mart.late, mart.rows]
                rows.append([f"{spaces.marts}.{mart.mart}", *counts, mart.strategy, f"{mart.seconds:.1f}"])
    failed = [table for table in report.tables if table.outcome == "failed"]
    rows += [[table.table, *[""] * 5, "failed", f"{table.seconds:.1f}"] for table in failed]
    if rows:
        grid(None, _NAMES, rows, right={*_NAMES} - {"table", "strategy"})
    for table in report.tables:
        _show_counts(table)
    show_notes(
        {table.table: table.passed for table in report.tables},
        {table.table: table.warnings for table in report.tables},
        {f"{spaces.gold}.{made.name}": made.because for made in report.gold if made.outcome == "not started"},
    )
    for warning in report.warnings:
        out.print(warning, style="yellow", markup=False)
    for made in report.gold:
        if made.outcome == "done":
            what = "touched groups refreshed" if made.strategy == "incremental" else "refreshed"
            out.print(f"{spaces.gold}.{made.name} {what}: {counted(made.rows, 'row')}", markup=False)
    if report.maintained:
        show_maintained(report.maintained)
    _show_outcomes(report)
    show_failures(report.errors)


def _show_counts(table: TableReport) -> None:
    """Print the numbers of files and records of a table that did not become changes, and why Spark was needed."""
    notes = [
        (table.duplicates, "file delivered again", "files delivered again"),
        (table.quarantined, "record quarantined", "records quarantined"),
        (table.untimed_deletes, "delete without a time", "deletes without a time"),
        (
            table.foreign,
            "record of other tables, before image or erased",
            "records of other tables, before images or erased",
        ),
    ]
    said = ", ".join(counted(count, one, many) for count, one, many in notes if count)
    for text in (said, table.spark_text):
        if text:
            out.print(f"{table.table}: {text}", style="yellow", markup=False)


_STYLES = {True: "", False: "red", None: "yellow"}


def _show_outcomes(report: RunReport) -> None:
    """Print the results of comparisons with sources, and the number of tables for each outcome."""
    for one in report.verified:
        out.print(f"{one}", style=_STYLES[one.ok], markup=False)
    if not report.steps and not report.errors:
        out.print(f"{report.pipeline}: nothing new, nothing committed", style="green", markup=False)
        return
    how = Counter(one.outcome for one in report.tables or report.gold)
    noun = "table" if report.tables else "aggregate"
    said = [f"{counted(how['done'], noun)} done"] if how["done"] or not report.errors else []
    said += [f"{how[outcome]:,} {outcome}" for outcome in ("nothing new", "failed", "not started") if how[outcome]]
    style = "red" if report.errors else "green"
    out.print(f"{report.pipeline}: {', '.join(said)} in {report.seconds:.1f} s", style=style, markup=False)


_MAINTAINED = ("table", "files", "size", "manifests", "rewritten", "snapshots expired", "orphans", "seconds")


def show_maintained(reports: Iterable[MaintainReport]) -> None:
    """Print a line for each table: sizes before and after, and the work done."""
    grid(None, _MAINTAINED, map(_row, reports), right={*_MAINTAINED} - {"table"})


def _row(report: MaintainReport) -> list[str | int]:
    return [
        report.table,
        f"{report.files_before} → {report.files_after}",
        f"{sized(report.size_before_bytes)} → {sized(report.size_after_bytes)}",
        f"{report.manifests_before} → {report.manifests_after}",
        sized(report.rewritten_bytes),
        report.snapshots_expired,
        report.orphans_removed,
        f"{report.seconds:.1f}",
    ]


_SHOWN = 5


def show_notes(
    passed: Mapping[str, Sequence[tuple[str, str]]], warnings: Mapping[str, Sequence[str]], left: Mapping[str, str]
) -> None:
    """Print notes, table by table, then the aggregates.

    Args:
        passed: table -> (path, reason) of files that do not belong to its source.
        warnings: table -> sentences.
        left: aggregate with its namespace -> why it is not refreshed.
    """
    for table in dict.fromkeys((*passed, *warnings)):
        said = [passed_over(passed[table])] if passed.get(table) else []
        for text in (*said, *warnings.get(table, ())):
            out.print(f"{table}: {runnable(text)}", style="yellow", markup=False)
    for name, reason in left.items():
        out.print(f"{name}: left as it is, because {reason}", style="yellow", markup=False)


def show_failures(failures: Iterable[Failure]) -> None:
    """Print every error of a run or a plan, with its code and its hint."""
    for failure in failures:
        err.print(f"{failure.name}: [{failure.code}] {failure.message}", style="red", markup=False)
        if failure.hint:
            err.print(f"  hint: {runnable(failure.hint)}", markup=False)


def passed_over(passed: Sequence[tuple[str, str]]) -> str:
    """Return the files in a source's folder that do not belong to it, as text."""
    shown = "; ".join(f"{path} ({why})" for path, why in passed[:_SHOWN])
    more = f"; and {len(passed) - _SHOWN:,} more" if len(passed) > _SHOWN else ""
    return f"{counted(len(passed), 'file')} passed over: {shown}{more}"


def landed_line(landed: Landed) -> str:
    """Return the result of one poll of a capture as text, with its lag behind the server."""
    parts = [f"{counted(landed.records, 'change')} landed in {counted(landed.files, 'file')}"]
    if landed.behind_bytes is not None:
        parts.append(f"{landed.behind_bytes:,} bytes behind")
    if landed.behind_seconds is not None:
        parts.append(f"{landed.behind_seconds:.1f} s behind")
    return ", ".join(parts)


def is_behind(lag: CaptureLag) -> bool:
    """Return whether changes at the server are not landed yet, or the capture has not begun."""
    return not lag.begun or bool(lag.behind_bytes or lag.behind_seconds)


def lag_line(lag: CaptureLag) -> str:
    """Return the lag of the landing files behind a server as text."""
    if not lag.begun:
        return f"{lag.name}: not captured yet"
    if not is_behind(lag):
        return f"{lag.name}: everything is landed"
    parts = [] if lag.behind_bytes is None else [f"{lag.behind_bytes:,} bytes"]
    if lag.behind_seconds is not None:
        parts.append(f"up to {lag.behind_seconds:.1f} s")
    return f"{lag.name}: {', '.join(parts)} behind"
