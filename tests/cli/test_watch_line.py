"""The line that a watch prints of a run."""

from __future__ import annotations

from frazil.cli.console import out
from frazil.cli.run.watch import show_watch_line
from frazil.runner.report.report import MartReport, RunReport, TableReport


def test_a_late_change_counts_once_however_many_marts_took_it() -> None:
    orders = TableReport(table="orders", files=1, rows=5, marts=[MartReport(mart=name, late=2) for name in "ab"])
    hosts = TableReport(table="hosts", files=1, rows=3, quarantined=1, marts=[MartReport(mart="c", late=1)])
    empty = TableReport(table="empty")

    with out.capture() as printed:
        show_watch_line(RunReport(pipeline="shop", tables=[orders, hosts, empty]), 0.5)

    assert printed.get().split("  ")[1:] == ["2 files, 8 records, 3 late, 1 quarantined", "lag 0.5 s\n"]
