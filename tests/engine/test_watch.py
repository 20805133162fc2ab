"""A watch takes files as they come, and ends cleanly."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from frazil.engine.watch import watch

if TYPE_CHECKING:
    from tests.engine.conftest import Shop

    from frazil.engine.report import RunReport


@pytest.mark.spark
def test_a_watch_applies_each_file_that_arrives_and_stops_when_told(shop: Shop) -> None:
    stop, arrived = threading.Event(), threading.Semaphore(0)
    reports: list[RunReport] = []

    def ran(report: RunReport, lag_seconds: float) -> None:
        assert lag_seconds >= 0
        reports.append(report)
        arrived.release()

    follower = threading.Thread(
        target=watch,
        args=(shop.pipeline, shop.session, stop),
        kwargs={"every_seconds": 0.05, "idle_seconds": 0.2, "ran": ran},
    )
    follower.start()
    try:
        for number in (1, 2):
            shop.land(f"2026010{number}-000000000.csv", f"I,{number},2026-01-0{number} 00:00:00,ada")
            assert arrived.acquire(timeout=120)
    finally:
        stop.set()
        follower.join(timeout=120)

    assert not follower.is_alive()
    assert [report.tables[0].rows for report in reports] == [1, 1]
    assert sorted(row["id"] for row in shop.session.table("lake.marts.orders").collect()) == [1, 2]
