"""Results as tables for the terminal."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table as Grid
from rich.text import Text

from frazil.cli.console import out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frazil.engine.report import RunReport

_MAX_CELL = 60


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
    """Print what a run did, a line a mart."""
    names = ["table", "inserted", "updated", "deleted", "late", "written", "how", "seconds"]
    rows: list[list[Any]] = []
    for table in report.tables:
        read = f"{table.files} files, {table.rows} records" if table.files else "no new files"
        out.print(
            f"[bold]{table.table}[/]: {read}, {table.changes} changes, batch {table.batch}, {table.jobs} Spark jobs"
        )
        for mart in table.marts:
            counts = [mart.inserted, mart.updated, mart.deleted, mart.late, mart.rows]
            rows.append([f"marts.{mart.mart}", *counts, mart.strategy, f"{mart.seconds:.1f}"])
        if table.error:
            rows.append([table.table, *[""] * 5, "failed", f"{table.seconds:.1f}"])
    if rows:
        grid(None, names, rows, right=set(names) - {"table", "how"})
    for table in report.tables:
        notes = {
            "files delivered again": table.duplicates,
            "files that wait": table.deferred,
            "records quarantined": table.quarantined,
            "records of other tables": table.foreign,
        }
        said = ", ".join(f"{count} {what}" for what, count in notes.items() if count)
        if said:
            out.print(f"{table.table}: {said}", style="yellow", markup=False)
    for name in report.gold:
        out.print(f"gold.{name} computed anew", markup=False)
    what = f"{len(report.tables)} tables" if report.steps else "nothing new, nothing committed"
    out.print(f"{report.pipeline}: {what} in {report.seconds:.1f} s", style="green", markup=False)


def watch_line(report: RunReport, lag_seconds: float) -> None:
    """Print one run of a watch on a line: when, what, and how long after its newest file."""
    files, rows = sum(table.files for table in report.tables), sum(table.rows for table in report.tables)
    applied = [mart for table in report.tables for mart in table.marts]
    late, bad = sum(mart.late for mart in applied), sum(table.quarantined for table in report.tables)
    notes = "".join(f", {count} {what}" for what, count in (("late", late), ("quarantined", bad)) if count)
    now = f"{dt.datetime.now(dt.UTC):%H:%M:%S}"
    out.print(f"{now}  {files} files, {rows} records{notes}  lag {lag_seconds:.1f} s", markup=False)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    text = str(value)
    return Text(text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…")
