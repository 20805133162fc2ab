"""Changes by other engines between runs: renamed and dropped columns, lost bookmarks, foreign commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.hostile.situation import command

from frazil import api
from frazil.api import running
from frazil.iceberg.snapshot import altered_columns
from frazil.runner.planner import OutdatedPlanError
from frazil.runner.report.report import RunFailedError

if TYPE_CHECKING:
    from tests.shop import Shop

ONE = "U,1,2026-01-01 00:00:00,ada"
RENAMED, DROPPED = "RENAME COLUMN note TO text", "DROP COLUMN note"


def test_columns_are_known_by_their_ids() -> None:
    then = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}, {"id": 4, "name": "d"}]
    now = [{"id": 2, "name": "a"}, {"id": 1, "name": "b"}, {"id": 4, "name": "D"}, {"id": 5, "name": "c"}]

    assert altered_columns(then, now) == {"a": "b", "b": "a", "c": ""}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("marts.orders", RENAMED, "marts.orders: another engine renamed note to text"),
        ("marts.orders_history", DROPPED, "marts.orders_history: another engine dropped note"),
        ("silver.orders_changes", RENAMED, "silver.orders_changes: another engine renamed note to text"),
    ],
)
def test_columns_that_another_engine_dropped_are_detected_and_rebuilt(
    shop: Shop, table: str, change: str, said: str
) -> None:
    """LOUD: by name they would be new ones, and NULL in every row."""
    shop.land("20260101.csv", ONE)
    shop.run()
    shop.session.sql(f"ALTER TABLE lake.{table} {change}")

    [wrong] = [one for one in api.check(shop.pipeline) if one.ok is False]
    assert (wrong.code, wrong.detail) == ("FZ710", said)
    assert "another engine" in command("plan", f"{shop.pipeline.folder}").text
    assert said in " ".join(command("status", f"{shop.pipeline.folder}").text.split())
    shop.run()

    assert all(one.ok for one in api.check(shop.pipeline))
    for mart in ("orders", "orders_history"):
        assert [row["note"] for row in shop.session.table(f"lake.marts.{mart}").collect()] == ["ada"]


@pytest.mark.spark
def test_bronze_stops_until_its_column_has_its_name_back(shop: Shop) -> None:
    shop.land("20260101.csv", ONE)
    shop.run()
    shop.session.sql(f"ALTER TABLE lake.bronze.orders {RENAMED}")
    [failed] = api.plan(shop.pipeline).failed.values()
    assert failed.code == "FZ710"
    with pytest.raises(RunFailedError) as caught:
        shop.run()
    assert caught.value.exit_code == 8

    shop.session.sql("ALTER TABLE lake.bronze.orders RENAME COLUMN text TO note")
    assert api.plan(shop.pipeline).is_idle


@pytest.mark.spark
def test_a_lost_bookmark_is_seen_before_a_run_and_by_check(shop: Shop) -> None:
    shop.land("20260101.csv", ONE)
    shop.run()
    shop.session.sql("CREATE OR REPLACE TABLE lake.marts.orders AS SELECT * FROM lake.marts.orders")

    [failed] = api.plan(shop.pipeline).failed.values()
    assert (failed.code, failed.hint) == (
        "FZ702",
        "run: frazil run --full-refresh --select orders, which rebuilds silver and marts from bronze",
    )
    assert "no bookmark" in " ".join(command("status", f"{shop.pipeline.folder}").text.split())
    assert [one.code for one in api.check(shop.pipeline) if one.ok is False] == ["FZ702"]
    assert command("run", "--full-refresh", f"{shop.pipeline.folder}", "--select", "orders", "--yes").code == 0
    assert all(one.ok for one in api.check(shop.pipeline))


@pytest.mark.spark
def test_a_commit_between_plan_and_start_makes_the_run_plan_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.land("20260101.csv", ONE)
    shop.run()
    shop.land("20260102.csv", "U,2,2026-01-02 00:00:00,bob")
    planned = running._plan

    def plan_and_be_second(*given: Any, **named: Any) -> Any:
        found = planned(*given, **named)
        shop.session.sql("UPDATE lake.marts.orders SET note = 'foreign' WHERE id = 1")
        return found

    monkeypatch.setattr(running, "_plan", plan_and_be_second)
    api.run(shop.pipeline)
    monkeypatch.undo()

    rows = {row["id"]: row["note"] for row in shop.session.table("lake.marts.orders").collect()}
    assert rows == {1: "foreign", 2: "bob"}
    with pytest.raises(OutdatedPlanError):
        api.run(shop.pipeline, plan=api.plan(shop.pipeline, rebuild=True), options=_moving(shop))


def _moving(shop: Shop) -> api.RunOptions:
    """Options of a run, before which somebody else writes a table."""
    shop.session.sql("UPDATE lake.marts.orders SET note = 'again' WHERE id = 1")
    return api.RunOptions()
