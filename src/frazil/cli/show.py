"""Results as tables for the terminal."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table as Grid
from rich.text import Text

from frazil.cli.console import err, out
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from frazil.engine.report import RunReport
    from frazil.spec import Pipeline

_MAX_CELL = 60
_SHOWN = 5


def grid(title: str | None, names: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> None:
    """Print rows under names; columns in ``right`` are numbers."""
    numbers = set(right)
    table = Grid(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        # Names of tables and numbers stay whole; long texts fold.
        is_text = name not in numbers and name != "table"
        table.add_column(
            Text(name), justify="right" if name in numbers else "left", overflow="fold", no_wrap=not is_text
        )
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    out.print(table)


def run_report(report: RunReport) -> None:
    """Print what a run did, a line a mart, then what failed."""
    names = ["table", "inserted", "updated", "deleted", "late", "written", "how", "seconds"]
    rows: list[list[Any]] = []
    busy = [table for table in report.tables if table.outcome in ("done", "failed") and (table.jobs or table.marts)]
    for table in busy:
        read = f"{counted(table.files, 'file')}, {counted(table.rows, 'record')}" if table.files else "no new files"
        out.print(
            f"[bold]{table.table}[/]: {read}, {counted(table.changes, 'change')}, batch {table.batch}, "
            f"{counted(table.jobs, 'Spark job')}"
        )
        for mart in table.marts:
            counts = [mart.inserted, mart.updated, mart.deleted, mart.late, mart.rows]
            rows.append([f"marts.{mart.mart}", *counts, mart.strategy, f"{mart.seconds:.1f}"])
    for table in report.tables:
        rows += [[table.table, *[""] * 5, "failed", f"{table.seconds:.1f}"]] if table.outcome == "failed" else []
    if rows:
        grid(None, names, rows, right=set(names) - {"table", "how"})
    for table in report.tables:
        notes = [
            (table.duplicates, "file delivered again", "files delivered again"),
            (table.deferred, "file that waits", "files that wait"),
            (table.quarantined, "record quarantined", "records quarantined"),
            (table.foreign, "record of other tables", "records of other tables"),
        ]
        said = ", ".join(counted(count, one, many) for count, one, many in notes if count)
        if said:
            out.print(f"{table.table}: {said}", style="yellow", markup=False)
    planned(report)
    for made in report.gold:
        if made.outcome == "done":
            out.print(f"gold.{made.name} refreshed: {counted(made.rows, 'row')}", markup=False)
    _outcomes(report)
    failures(report)


def _outcomes(report: RunReport) -> None:
    """Print how many tables came out of the run in which way."""
    seconds = f"in {report.seconds:.1f} s"
    if not report.steps and not report.errors:
        out.print(f"{report.pipeline}: nothing new, nothing committed {seconds}", style="green", markup=False)
        return
    how = Counter(table.outcome for table in report.tables)
    said = [f"{counted(how['done'], 'table')} done"] if how["done"] or not report.errors else []
    said += [f"{how[outcome]:,} {outcome}" for outcome in ("nothing new", "failed", "not started") if how[outcome]]
    style = "red" if report.errors else "green"
    out.print(f"{report.pipeline}: {', '.join(said)} {seconds}", style=style, markup=False)


def planned(report: RunReport) -> None:
    """Print what is worth knowing of the sources and of the aggregates that are left, before or after a run."""
    for table in report.tables:
        if table.passed:
            out.print(f"{table.table}: {passed_over(table.passed)}", style="yellow", markup=False)
        for warning in table.warnings:
            out.print(f"{table.table}: {warning}", style="yellow", markup=False)
    for made in report.gold:
        if made.outcome == "not started":
            out.print(f"gold.{made.name}: left as it is, because {made.because}", style="yellow", markup=False)
    for warning in report.warnings:
        out.print(warning, style="yellow", markup=False)


def failures(report: RunReport) -> None:
    """Print every error of a run or a plan, with its code and its hint."""
    for failure in report.errors:
        err.print(f"{failure.name}: [{failure.code}] {failure.message}", style="red", markup=False)
        if failure.hint:
            err.print(f"  hint: {failure.hint}", markup=False)


def passed_over(passed: Sequence[tuple[str, str]]) -> str:
    """Say which files at a source are no files of it."""
    shown = "; ".join(f"{path} ({why})" for path, why in passed[:_SHOWN])
    more = f"; and {len(passed) - _SHOWN:,} more" if len(passed) > _SHOWN else ""
    return f"{counted(len(passed), 'file')} passed over: {shown}{more}"


def watch_line(report: RunReport, lag_seconds: float) -> None:
    """Print one run of a watch on a line: when, what, and how long after its newest file."""
    files, rows = sum(table.files for table in report.tables), sum(table.rows for table in report.tables)
    # All marts of a table count the same changes as late.
    late = sum(max((mart.late for mart in table.marts), default=0) for table in report.tables)
    bad = sum(table.quarantined for table in report.tables)
    notes = "".join(f", {count:,} {what}" for what, count in (("late", late), ("quarantined", bad)) if count)
    now, read = f"{dt.datetime.now(dt.UTC):%H:%M:%S}", f"{counted(files, 'file')}, {counted(rows, 'record')}"
    out.print(f"{now}  {read}{notes}  lag {lag_seconds:.1f} s", markup=False)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    text = str(value)
    return Text(text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…")


def watched(pipeline: Pipeline, names: Collection[str]) -> Iterator[str]:
    """Say what a watch follows: the tables, and the folders of each."""
    yield f"watching {counted(len(names), 'table')}"
    for table in pipeline.tables:
        if table.name in names:
            yield f"  {table.name}: {', '.join((*table.source.path, *(table.source.cdc_path or ())))}"
