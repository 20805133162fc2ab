"""What a run did, for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from frazil.cli.console import out
from frazil.cli.grid import grid
from frazil.cli.render.maintain import show_maintained
from frazil.cli.render.notes import show_failures, show_notes
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.runner.report.report import RunReport, TableReport
    from frazil.spec import Namespaces

_NAMES = ("table", "inserted", "updated", "deleted", "late", "written", "strategy", "seconds")


def show_run(report: RunReport, spaces: Namespaces) -> None:
    """Print what a run did, a line a mart, then what failed; tables of the lake with the namespaces they are in."""
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
    """Print how many files and records of a table are no changes."""
    notes = [
        (table.duplicates, "file delivered again", "files delivered again"),
        (table.quarantined, "record quarantined", "records quarantined"),
        (table.untimed_deletes, "delete without a time", "deletes without a time"),
        (table.foreign, "record of other tables, or erased", "records of other tables, or erased"),
    ]
    said = ", ".join(counted(count, one, many) for count, one, many in notes if count)
    if said:
        out.print(f"{table.table}: {said}", style="yellow", markup=False)


def _show_outcomes(report: RunReport) -> None:
    """Print how many tables came out of the run in which way."""
    seconds = f"in {report.seconds:.1f} s"
    if not report.steps and not report.errors:
        out.print(f"{report.pipeline}: nothing new, nothing committed {seconds}", style="green", markup=False)
        return
    how = Counter(one.outcome for one in report.tables or report.gold)
    noun = "table" if report.tables else "aggregate"
    said = [f"{counted(how['done'], noun)} done"] if how["done"] or not report.errors else []
    said += [f"{how[outcome]:,} {outcome}" for outcome in ("nothing new", "failed", "not started") if how[outcome]]
    style = "red" if report.errors else "green"
    out.print(f"{report.pipeline}: {', '.join(said)} {seconds}", style=style, markup=False)
