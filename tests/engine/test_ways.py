"""The rule that chooses how a batch gets into a mart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.engine import compact
from frazil.engine.compact import is_due
from frazil.lake.heads import Head, head
from frazil.plan.way import BROADCAST_CHANGES, way
from frazil.spec import Upkeep

if TYPE_CHECKING:
    from tests.engine.conftest import Shop


@pytest.mark.parametrize(
    ("changes", "rows", "takes_positions", "chosen"),
    [
        (5_000, 1_000_000, True, "small"),
        (5_000, 1_000_000, False, "split"),
        (100_000, 1_000_000, True, "small"),
        (100_001, 1_000_000, True, "rewrite"),
        (100_001, 1_000_000, False, "rewrite"),
        (1, 0, True, "rewrite"),
        (BROADCAST_CHANGES + 1, 1_000_000_000, True, "rebuild"),
    ],
)
def test_a_way_is_chosen_by_the_size_of_batch_and_mart(
    changes: int,
    rows: int,
    takes_positions: bool,  # noqa: FBT001 - pytest gives it by name
    chosen: str,
) -> None:
    assert way(changes, rows, takes_positions=takes_positions) == chosen


@pytest.mark.parametrize(
    ("data", "deletes", "size_mb", "upto", "due"),
    [
        (7, 7, 10, 24, False),
        (8, 0, 10, 24, True),
        (1, 8, 10_000, 24, True),
        (100, 0, 12_000, 24, False),
        (100, 0, 100, 24, True),
        (100, 100, 100, 23, False),
        (100, 100, 100, 30, True),
    ],
)
def test_every_dozen_batches_many_small_files_or_many_files_of_deletes_are_merged(
    data: int,
    deletes: int,
    size_mb: int,
    upto: int,
    due: bool,  # noqa: FBT001 - pytest gives it by name
) -> None:
    summary = {
        "total-data-files": f"{data}",
        "total-delete-files": f"{deletes}",
        "total-files-size": f"{size_mb * 1024 * 1024}",
    }

    assert is_due(Head(summary=summary), Upkeep(), after=22, upto=upto) is due


def test_small_batches_mark_rows_by_their_place_and_are_compacted_in_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is a file of rows and a file of places; after a few of them a run merges what has gathered."""
    monkeypatch.setattr(compact, "EVERY", 5)
    monkeypatch.setattr(compact, "_MANY", 4)
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,new" for number in range(100)))
    shop.run()
    seen = []

    for number in range(1, 6):
        changes = f"U,{number},2026-01-02 00:00:0{number},again", f"D,{50 + number},2026-01-02 00:00:00,"
        shop.land(f"20260102-00000{number}.csv", *changes)
        seen.append([(mart.strategy, mart.updated, mart.deleted, mart.compacted) for mart in shop.run().marts])

    plain, merged = ("small", 1, 1, False), ("small", 1, 1, True)
    session = shop.session
    assert [current for current, _ in seen] == [plain, plain, plain, merged, plain]
    assert head(session, "lake.marts.orders").summary["total-delete-files"] == "1"
    assert session.table("lake.marts.orders").count() == 95
    assert session.table("lake.marts.orders").where("note = 'again'").count() == 5
    history = session.table("lake.marts.orders_history")
    assert (history.count(), history.where("is_current").count()) == (105, 95)
