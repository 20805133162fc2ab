"""What a watch follows and did, for people."""

from __future__ import annotations

import datetime as dt
from itertools import chain
from typing import TYPE_CHECKING

from frazil.cli.console import out
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from frazil.runner.report.report import RunReport
    from frazil.spec import Pipeline


def show_watch_line(report: RunReport, lag_seconds: float) -> None:
    """Print one run of a watch on a line: when, what, and how long after its newest file."""
    files, rows = sum(table.files for table in report.tables), sum(table.rows + table.bad for table in report.tables)
    # All marts of a table count the same changes as late.
    late = sum(max((mart.late for mart in table.marts), default=0) for table in report.tables)
    bad = sum(table.quarantined for table in report.tables)
    notes = "".join(f", {count:,} {what}" for what, count in (("late", late), ("quarantined", bad)) if count)
    now, read = f"{dt.datetime.now(dt.UTC):%H:%M:%S}", f"{counted(files, 'file')}, {counted(rows, 'record')}"
    out.print(f"{now}  {read}{notes}  lag {lag_seconds:.1f} s", markup=False)


def watched(pipeline: Pipeline, names: Collection[str]) -> Iterator[str]:
    """Return lines on what a watch follows: the tables, and the folders of each."""
    yield f"watching {counted(len(names), 'table')}"
    for table in pipeline.tables:
        if table.name in names:
            yield f"  {table.name}: {', '.join(chain.from_iterable(table.source.locations.values()))}"
