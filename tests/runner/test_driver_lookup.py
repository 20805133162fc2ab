"""What the driver looks through by itself is bounded, and what it cannot read Spark does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frazil import api
from frazil.runner.batch import driver_batch
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from tests.shop import Shop

NOTES = {1: "new", 2: "old"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("thresholds", "asked", "reason"),
    [
        ({}, {"orders", "orders_history", "orders_changes"}, "files"),
        ({"driver_scan_files": 0}, set(), "large"),
    ],
)
def test_tables_of_many_files_are_left_to_spark(
    thresholds: dict[str, int], asked: set[str], reason: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are rows that make a change late: the batch is compared with what there is."""
    seen = set()

    def unreadable(_: Any, name: str, *__: Any) -> NeedsSpark:
        seen.add(name.rpartition(".")[2].strip("`"))
        return NeedsSpark("files")

    shop = shop.by(strategy="row_delta", **thresholds)
    shop.land("LOAD001.csv", "I,1,2026-01-01 00:00:00,old", "I,2,2026-01-01 00:00:00,old")
    shop.run()
    monkeypatch.setattr(driver_batch, "table_files", unreadable)
    shop.land("20260102-000000.csv", "U,1,2026-01-01 00:00:00,new")

    report = shop.run()

    assert seen == asked
    assert [mart.strategy for mart in report.marts] == ["row_delta", "delete_append"]  # of equal times
    assert [mart.by_spark for mart in report.marts] == [[reason], [reason]]
    (state,) = api.status(shop.pipeline).tables
    assert [mart.spark_runs.reasons for mart in state.marts] == [{reason: 1}, {reason: 1}]
    assert {row["id"]: row["note"] for row in shop.session.table("lake.marts.orders").collect()} == NOTES


@pytest.mark.long
def test_tables_of_many_bytes_are_left_to_spark(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = shop.by(strategy="row_delta", driver_scan_bytes=0)
    shop.land("LOAD001.csv", "I,1,2026-01-01 00:00:00,old", "I,2,2026-01-01 00:00:00,old", "D,3,2026-01-01 00:00:00,")
    shop.run()
    read = []
    monkeypatch.setattr(driver_batch, "find_rows", lambda *given: read.append(given))
    shop.land("20260102-000000.csv", "U,1,2026-01-01 00:00:00,new")

    shop.run()

    assert read == []
    assert {row["id"]: row["note"] for row in shop.session.table("lake.marts.orders").collect()} == NOTES
