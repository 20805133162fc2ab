"""Changes by other engines between runs: renamed and dropped columns, lost bookmarks, foreign commits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.hostile.situation import command
from tests.runner.test_rebuild_counts import declare

from frazil import api
from frazil.api import running
from frazil.iceberg.snapshot import altered_columns
from frazil.runner.planner import OutdatedPlanError
from frazil.runner.report import RunFailedError
from frazil.spark.gateway import java_table

if TYPE_CHECKING:
    from tests.shop import Shop

ONE = "U,1,2026-01-01 00:00:00,ada"
RENAMED, DROPPED = "RENAME COLUMN note TO text", "DROP COLUMN note"


def test_columns_are_known_by_their_ids() -> None:
    then = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}, {"id": 4, "name": "d"}]
    now = [{"id": 2, "name": "a"}, {"id": 1, "name": "b"}, {"id": 4, "name": "D"}, {"id": 5, "name": "c"}]

    assert altered_columns(then, now) == {"a": "b", "b": "a", "c": ""}


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "rebuild"),
    [
        ("marts.orders", False),
        ("silver.orders_changes", True),
        *(
            pytest.param(table, rebuild, marks=pytest.mark.laws)
            for table, rebuild in (
                ("marts.orders", True),
                ("marts.orders_history", False),
                ("marts.orders_history", True),
                ("silver.orders_changes", False),
            )
        ),
    ],
)
def test_a_column_that_another_engine_made_not_null_takes_null_again(shop: Shop, table: str, *, rebuild: bool) -> None:
    shop.land("20260101.csv", *(f"U,{key},2026-01-01 00:00:00,ada" for key in range(1, 9)))
    shop.run()
    made = java_table(shop.session, f"lake.{table}")
    assert made is not None
    made.updateSchema().allowIncompatibleChanges().requireColumn("note").commit()
    shop.land("20260102.csv", "U,9,2026-01-02 00:00:00,", "U,1,2026-01-02 00:00:00,")
    shop.session.sql(f"REFRESH TABLE lake.{table}")

    if rebuild:
        api.run(shop.pipeline, rebuild=True)
    else:
        shop.run()

    rows = {row["id"]: row["note"] for row in shop.session.table("lake.marts.orders").collect()}
    assert (rows[1], rows[9], len(rows)) == (None, None, 9)
    assert all(one.ok for one in api.check(shop.pipeline))


@pytest.mark.spark
def test_a_type_that_another_engine_changed_is_planned_and_rebuilt(shop: Shop) -> None:
    shop = declare(shop, columns="{name: id, type: int}, {name: ts, type: timestamp}, {name: note}")
    shop.land("20260101.csv", ONE)
    shop.run()
    shop.session.sql("ALTER TABLE lake.marts.orders_history ALTER COLUMN id TYPE bigint")
    shop.land("20260102.csv", "U,2,2026-01-02 00:00:00,bob")

    assert "another engine changed the type of id from int to bigint" in command("plan", f"{shop.pipeline.folder}").text
    shop.run()

    rows = shop.session.table("lake.marts.orders_history").select("id", "note")
    assert (dict(rows.dtypes)["id"], {tuple(row) for row in rows.collect()}) == ("int", {(1, "ada"), (2, "bob")})
    assert all(one.ok for one in api.check(shop.pipeline))


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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(("how", "said"), [("", "FZ703"), (" PURGE", None)])
def test_check_fails_where_bronze_was_dropped(shop: Shop, how: str, said: str | None) -> None:
    shop.land("20260101.csv", ONE)
    shop.run()
    shop.session.sql(f"DROP TABLE lake.bronze.orders{how}")

    [failed] = [one for one in api.check(shop.pipeline) if one.ok is False]

    assert failed.code == said
    if said:
        api.repair(shop.pipeline)
    shop.run()
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


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("changes", [("ad TO bd", "ac TO ad", "bd TO ac"), ("ad TO bd",)])
def test_an_aggregate_with_renamed_columns_is_computed_again(shop: Shop, changes: tuple[str, ...]) -> None:
    """By name all are there when two were swapped: groups that no batch touches would keep them."""
    shop = with_notes(shop)
    for change in changes:
        shop.session.sql(f"ALTER TABLE lake.gold.notes RENAME COLUMN {change}")

    [status] = api.status(shop.pipeline).gold
    assert [one.code for one in api.check(shop.pipeline) if one.ok is False] == ["FZ710"]
    api.run(shop.pipeline)

    assert "another engine renamed" in f"{status.trouble}"
    assert notes(shop) == [("ada", "x")]
    assert api.plan(shop.pipeline).is_idle
    assert [one.trouble for one in api.status(shop.pipeline).gold] == [None]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    "write",
    [
        "UPDATE lake.gold.notes SET ad = 'mine' WHERE id = 3",
        "INSERT INTO lake.gold.notes VALUES (900, 'ada', false, 'mine')",
    ],
)
def test_rows_that_another_engine_wrote_to_an_aggregate_are_detected_and_gone_after_a_refresh(
    shop: Shop, write: str
) -> None:
    """A refresh of the groups that a batch touches would keep the other rows."""
    shop = with_notes(shop)
    shop.session.sql(write)
    shop.session.sql("CALL lake.system.rewrite_data_files('gold.notes', options => map('rewrite-all', 'true'))")

    [wrong] = [one for one in api.check(shop.pipeline) if one.ok is False]
    shop.land("20260102.csv", "U,1,2026-01-02 00:00:00,ada")
    shop.run()

    assert (wrong.code, wrong.law) == ("FZ710", "CONVERGE")
    assert "in 1 commit since its last refresh" in wrong.detail
    assert notes(shop) == [("ada", "x")]
    assert shop.session.table("lake.gold.notes").count() == 29
    assert all(one.ok for one in api.check(shop.pipeline))


@pytest.mark.long
@pytest.mark.spark
def test_an_aggregate_without_bookmark_is_refused_until_it_is_made_again(shop: Shop) -> None:
    shop = with_notes(shop)
    shop.session.sql("CREATE OR REPLACE TABLE lake.gold.notes AS SELECT id, ac, b, 'other' AS ad FROM lake.gold.notes")

    [failed] = api.plan(shop.pipeline).failed.values()
    [status] = api.status(shop.pipeline).gold
    with pytest.raises(RunFailedError) as caught:
        api.run(shop.pipeline)

    assert (failed.code, caught.value.exit_code) == ("FZ702", 8)
    assert "no bookmark" in f"{status.trouble}"
    assert [one.code for one in api.check(shop.pipeline) if one.ok is False] == ["FZ702"]
    assert "--select notes" in f"{failed.hint}"
    assert notes(shop) == [("ada", "other")]
    api.run(shop.pipeline, select="notes", rebuild=True)
    assert notes(shop) == [("ada", "x")]
    assert api.plan(shop.pipeline).is_idle


def with_notes(shop: Shop) -> Shop:
    """The shop with an aggregate, after a run."""
    declaration = shop.pipeline.folder / "frazil.yml"
    sql = "select id, max(note) as ac, max(ts) is null as b, min('x') as ad from {{ orders }} group by id"
    gold = f'gold: [{{name: notes, materialized: incremental, sql: "{sql}"}}]'
    declaration.write_text(f"{declaration.read_text()}{gold}\n")
    shop = replace(shop, pipeline=api.load(shop.pipeline.folder))
    shop.land("20260101.csv", ONE, *(f"U,{key},2026-01-01 00:00:00,ada" for key in range(2, 30)))
    shop.run()
    return shop


def notes(shop: Shop) -> list[tuple[str, str]]:
    rows = shop.session.sql("SELECT DISTINCT ac, ad FROM lake.gold.notes").collect()
    return [(row["ac"], row["ad"]) for row in rows]
