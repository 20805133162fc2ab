"""What a plan says of tables to alter is all that is altered."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil import api
from frazil.plan.explain import explain
from frazil.plan.policy import DEFAULT_POLICY
from frazil.runner.maintain import maintain
from frazil.runner.options import RunOptions
from frazil.runner.report import TableReport
from frazil.runner.steps.alter import alter_table
from frazil.runner.table_run import TableRun
from frazil.spec.model.pipeline import Upkeep
from frazil.steps import AlterTable

if TYPE_CHECKING:
    from tests.shop import Shop

    from frazil.plan.policy import Strategy
    from frazil.spec import Pipeline

pytestmark = pytest.mark.spark

ONE, TWO = "U,1,2026-01-01 00:00:00,ada,1", "U,2,2026-01-02 00:00:00,bob,2"
BATCH = ["ingest", "normalize", "apply", "apply"]


def declared(shop: Shop, mart: str = "kind: current", price: str = "int") -> Pipeline:
    """Declare the shop with an open contract."""
    file = shop.pipeline.folder / "frazil.yml"
    head, _ = file.read_text(encoding="utf-8").split("    columns:")
    columns = f"[{{name: id, type: bigint}}, {{name: ts, type: timestamp}}, {{name: price, type: {price}}}, '*']"
    file.write_text(f"{head}    columns: {columns}\n    marts: [{{{mart}}}, {{kind: history}}]\n", encoding="utf-8")
    return frazil.load(file)


def altering(pipeline: Pipeline) -> list[AlterTable]:
    return [step for step in api.plan(pipeline).steps if isinstance(step, AlterTable)]


def test_a_new_field_needs_just_the_steps_that_the_plan_shows(shop: Shop) -> None:
    pipeline = declared(shop)
    shop.land("1.csv", ONE, names=("id", "ts", "name", "price"))
    assert [explain(step).split()[1] for step in api.plan(pipeline).steps] == BATCH
    frazil.run(pipeline, spark=shop.session)
    shop.land("2.csv", f"{TWO},x", names=("id", "ts", "name", "price", "note"))
    steps = altering(pipeline)
    context = TableRun(
        spark=shop.session,
        pipeline=pipeline,
        table=pipeline.tables[0],
        now=dt.datetime.now(dt.UTC),
        report=TableReport(table="orders"),
    )

    for step in steps:
        alter_table(context, step)

    assert [explain(step) for step in steps] == [
        f"orders: alter {name}: add column note string"
        for name in ("bronze.orders", "silver.orders_changes", "marts.orders", "marts.orders_history")
    ]
    assert altering(pipeline) == []
    frazil.run(pipeline, spark=shop.session)
    notes = {row["id"]: row["note"] for row in shop.session.table("lake.marts.orders").collect()}
    assert notes == {1: None, 2: "x"}


def test_a_mart_laid_out_otherwise_is_altered_with_its_batch_or_without_one(shop: Shop) -> None:
    shop.land("1.csv", ONE, names=("id", "ts", "name", "price"))
    frazil.run(declared(shop), spark=shop.session)
    sorted_by, renamed = declared(shop, "kind: current, sort_by: [id]"), "kind: current, properties: {team: sales}"

    alone = frazil.run(sorted_by, spark=shop.session)
    pipeline = declared(shop, renamed)
    shop.land("2.csv", TWO, names=("id", "ts", "name", "price"))
    [step] = altering(pipeline)
    frazil.run(pipeline, spark=shop.session)

    assert (alone.steps, api.plan(pipeline).steps) == (1, ())
    assert explain(step) == "orders: alter marts.orders: do not sort new files, set property team to 'sales'"
    shown = {row["key"]: row["value"] for row in shop.session.sql("SHOW TBLPROPERTIES lake.marts.orders").collect()}
    assert shown["team"] == "sales"
    assert "sort-order" not in shown


def test_a_wider_type_alters_the_marts_at_once_and_silver_with_its_next_batch(shop: Shop) -> None:
    shop.land("1.csv", ONE, names=("id", "ts", "name", "price"))
    frazil.run(declared(shop), spark=shop.session)
    pipeline = declared(shop, price="bigint")

    steps = altering(pipeline)
    frazil.run(pipeline, spark=shop.session)

    assert {explain(step).split(": ", 2)[2] for step in steps} == {"widen column price from int to bigint"}
    assert [step.name for step in steps] == ["marts.orders", "marts.orders_history"]
    assert dict(shop.session.table("lake.marts.orders").dtypes)["price"] == "bigint"
    assert api.plan(pipeline).steps == ()


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["delete_append", pytest.param("row_delta", marks=pytest.mark.laws)])
def test_a_mart_whose_partition_column_is_gone_takes_every_batch(shop: Shop, strategy: Strategy) -> None:
    """Iceberg cannot delete rows of such a table with a query until the snapshots from before expire."""
    shop.land("1.csv", ONE, names=("id", "ts", "name", "price"))
    frazil.run(declared(shop, "name: m, kind: history"), spark=shop.session)
    pipeline = declared(shop, "name: m, kind: current")
    frazil.run(pipeline, spark=shop.session)
    options = RunOptions(policy=replace(DEFAULT_POLICY, strategy=strategy))
    taken = []

    for number in range(2, 6):
        if number == 4:
            kept = pipeline.model_copy(update={"upkeep": Upkeep(retain_last=1, expire_after_days=0)})
            maintain(kept, shop.session)
        shop.land(f"{number}.csv", f"U,1,2026-01-0{number} 00:00:00,ada,{number}", names=("id", "ts", "name", "price"))
        report = frazil.run(pipeline, spark=shop.session, options=options)
        taken += [mart.strategy for mart in report.tables[0].marts if mart.mart == "m"]

    assert [row["price"] for row in shop.session.table("lake.marts.m").collect()] == [5]
    late = strategy if strategy == "row_delta" else "overwrite"
    assert taken == [late, late, strategy, strategy]


@pytest.mark.laws
def test_a_run_that_dies_between_a_new_table_and_its_view_leaves_the_view_to_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE: the view has columns that only the new table has, so it cannot be there before."""
    shop.land("1.csv", ONE, names=("id", "ts", "name", "price"))
    frazil.run(declared(shop, "name: m, kind: history"), spark=shop.session)
    pipeline = declared(shop, "name: m, kind: current, deletes: soft, live_view: living")
    monkeypatch.setenv("FRAZIL_FAILPOINT", "mart.after_publish:raise")
    with pytest.raises(frazil.RunFailedError):
        frazil.run(pipeline, spark=shop.session)
    monkeypatch.delenv("FRAZIL_FAILPOINT")

    [step] = altering(pipeline)
    frazil.run(pipeline, spark=shop.session)

    assert explain(step) == "orders: alter marts.m: create live view living"
    assert [row["id"] for row in shop.session.table("lake.marts.living").collect()] == [1]
    assert api.plan(pipeline).steps == ()


def test_a_live_view_is_recreated_only_if_necessary(shop: Shop) -> None:
    shop.land("1.csv", ONE, names=("id", "ts", "name", "price"))
    mart = "name: m, kind: current, deletes: soft, live_view: living"
    frazil.run(declared(shop, mart), spark=shop.session)
    view = shop.pipeline.folder / "lake" / "marts" / "living" / "metadata"
    made = len([*view.iterdir()])

    shop.land("2.csv", "I,2,2026-01-02 00:00:00,bob,2", names=("id", "ts", "name", "price"))
    frazil.run(declared(shop, mart), spark=shop.session)
    after_rows = len([*view.iterdir()])
    shop.land("3.csv", "I,3,2026-01-03 00:00:00,cyd,3,new", names=("id", "ts", "name", "price", "more"))
    frazil.run(declared(shop, mart), spark=shop.session)

    assert (made, after_rows, len([*view.iterdir()])) == (1, 1, 2)
    assert "more" in shop.session.table("lake.marts.living").columns
