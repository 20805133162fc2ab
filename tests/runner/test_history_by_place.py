"""History of tables that the place of a change orders, and a column beside it times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.shop import Shop, declared

import frazil
from frazil.runner.options import RunOptions

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = "{name: id, type: int}, {name: ts, type: timestamp}, {name: note, type: string}"
VERSIONS = "SELECT id, note, valid_from, valid_to, is_current FROM lake.marts.orders_history"


@pytest.fixture(
    params=[
        {},
        pytest.param({"driver_scan_bytes": 0, "reader": "stream", "plain_bytes": 0}, marks=pytest.mark.laws),
    ],
    ids=["small batches", "large batches"],
)
def shop(request: pytest.FixtureRequest, spark: object, tmp_path: Path) -> Shop:
    """A shop whose files order the changes; all is held and found on the driver, or typed twice and found by Spark."""
    del spark  # only there so that Java runs
    shop = declared(tmp_path, keys="id", columns=COLUMNS, marts="{kind: current}, {kind: history}")
    declaration = tmp_path / "frazil.yml"
    text = declaration.read_text(encoding="utf-8").replace("sequence_by: [ts]", "effective_at: ts")
    declaration.write_text(text, encoding="utf-8")
    shop = replace(shop, pipeline=frazil.load(tmp_path)).by(**request.param, strategy="row_delta")
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,old" for number in range(1, 30)))
    shop.run()
    return shop


def rebuilt(shop: Shop) -> list[tuple[Any, ...]]:
    """Versions as a rebuild makes them, from all changes."""
    frazil.run(shop.pipeline, spark=shop.session, rebuild=True, options=RunOptions(policy=shop.policy))
    return versions(shop)


def versions(shop: Shop) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in shop.session.sql(VERSIONS).collect()), key=str)


@pytest.mark.long
def test_what_is_after_all_before_is_compared_with_nothing(shop: Shop) -> None:
    """Also if times contradict the order within the batch: the last in order has the greatest time so far."""
    shop.land(
        "20260102-000000.csv",
        "U,1,2026-01-02 10:00:00,new",
        "U,1,2026-01-02 09:00:00,newer",
        "D,2,2026-01-02 10:00:00,",
        "I,90,2026-01-02 09:00:00,more",
    )

    report = shop.run()

    assert [mart.strategy for mart in report.marts] == ["row_delta", "row_delta"]
    assert [mart.late for mart in report.marts] == [0, 0]
    assert (1, "newer") in {row[:2] for row in versions(shop)}
    assert versions(shop) == rebuilt(shop)


@pytest.mark.long
def test_keys_that_have_a_time_before_are_made_from_all_their_changes(shop: Shop) -> None:
    shop.land("20260102-000000.csv", "U,1,2026-01-05 00:00:00,far", "D,3,2026-01-05 00:00:00,")
    shop.run()
    shop.land(
        "20260103-000000.csv",
        "U,1,2026-01-03 00:00:00,before the newest",
        "U,2,2026-01-06 00:00:00,after it",
        "U,3,2026-01-02 00:00:00,back",
        "I,91,2026-01-02 00:00:00,never seen",
        "U,4,,untimed",
    )

    current, history = shop.run().marts

    # Keys with an earlier time than the newest, or with none, are recomputed: a row delta where the driver finds all.
    finds = shop.policy.driver_scan_bytes > 0
    assert (current.strategy, history.strategy) == ("row_delta", "row_delta" if finds else "delete_append")
    assert versions(shop) == rebuilt(shop)


@pytest.mark.long
def test_what_is_compared_and_found_after_all_before_needs_no_recomputing(shop: Shop) -> None:
    """A file that comes late is not after all places, but new keys have nothing to be late for."""
    shop.land("20260105-000000.csv", "U,1,2026-01-05 00:00:00,new")
    shop.run()
    shop.land("20260104-000000.csv", "U,2,2026-01-06 00:00:00,between", "I,92,2026-01-02 00:00:00,never seen")

    current, history = shop.run().marts

    assert (current.strategy, history.strategy) == ("row_delta", "row_delta")
    assert versions(shop) == rebuilt(shop)
