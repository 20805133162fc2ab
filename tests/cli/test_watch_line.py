"""What watch and capture print while they go on."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

from frazil import api
from frazil.cli.commands.run import show_watch_line
from frazil.cli.console import out
from frazil.runner.report import MartReport, RunReport, TableReport

if TYPE_CHECKING:
    from pathlib import Path

UNREACHABLE = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: postgres, url: "postgresql://app@127.0.0.1:1/shop", table: public.orders, landing: ./landing}
    keys: [id]
"""


def test_a_late_change_counts_once_however_many_marts_took_it() -> None:
    orders = TableReport(table="orders", files=1, rows=5, marts=[MartReport(mart=name, late=2) for name in "ab"])
    hosts = TableReport(table="hosts", files=1, rows=3, quarantined=1, marts=[MartReport(mart="c", late=1)])
    empty = TableReport(table="empty")

    with out.capture() as printed:
        show_watch_line(RunReport(pipeline="shop", tables=[orders, hosts, empty]), 0.5)

    assert printed.get().split("  ")[1:] == ["2 files, 8 records, 3 late, 1 quarantined", "lag 0.5 s\n"]


def test_a_capture_of_an_unreachable_server_tells_that_it_tries_again(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(UNREACHABLE, encoding="utf-8")
    stop, told = Event(), list[str]()

    def tell(_: str, text: str) -> None:
        told.append(text)
        stop.set()

    assert api.capture(tmp_path, stop, options=api.CaptureOptions(tell=tell)) == 3
    assert [text.splitlines()[-1] for text in told] == ["  tries again, at most 30 seconds apart"]
