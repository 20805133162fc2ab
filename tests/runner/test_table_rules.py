"""Rules of whole marts: what a batch would leave is judged before it is published, however it is applied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.failing import run_fails_with

import frazil
from frazil import api
from frazil.plan.policy import Policy
from frazil.runner.limits import rules as rules_of_rows
from frazil.runner.limits.driver_rules import counts_on_driver
from frazil.runner.limits.rules import RuleBrokenError
from frazil.runner.options import RunOptions
from frazil.spark.session import spark_session
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.plan.policy import Strategy
    from frazil.runner.report import RunReport, TableReport

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing/orders, header: true}}
    keys: [id]
    sequence_by: [ts]
    columns: [{{name: id, type: int}}, {{name: ts, type: timestamp}}, {{name: code}}, {{name: customer, type: bigint}}]
    rules: {rules}
    marts: {marts}
  - name: customers
    source: {{kind: dms, path: ./landing/customers, header: true}}
    keys: [customer]
    sequence_by: [ts]
    columns: [{{name: customer, type: int}}, {{name: ts, type: timestamp}}]
"""
EVERY_MART = "[{kind: current}, {kind: current, deletes: soft, name: kept}, {kind: history}]"
UNIQUE = "[{name: one_code, unique: [code]}]"
REFERENCES = "[{name: known, references: {columns: [customer], to: customers}}]"


class Shop:
    """A pipeline of orders and their customers."""

    def __init__(self, folder: Path, driver_scan_bytes: int) -> None:
        self.folder, self.policy, self.driver_scan_bytes = folder, Policy(), driver_scan_bytes
        for name in ("orders", "customers"):
            (folder / "landing" / name).mkdir(parents=True)

    def declare(self, rules: str, marts: str = EVERY_MART) -> None:
        text = DECLARATION.format(rules=rules, marts=marts)
        (self.folder / "frazil.yml").write_text(text, encoding="utf-8")

    def land(self, *records: str, table: str = "orders") -> None:
        folder = self.folder / "landing" / table
        number = len([*folder.iterdir()]) + 1
        fields = "op,id,ts,code,customer" if table == "orders" else "op,customer,ts"
        split = (record.split(",", 3) for record in records)
        rows = [
            ",".join([op, key, f"2026-01-{number:02} 00:00:{second:0>2}", *rest]) for op, key, second, *rest in split
        ]
        (folder / f"202601{number:02}-000000000.csv").write_text("\n".join([fields, *rows, ""]), encoding="utf-8")

    def run(self, *select: str, rebuild: bool = False) -> RunReport:
        pipeline = frazil.load(self.folder)
        options = RunOptions(policy=replace(self.policy, driver_scan_bytes=self.driver_scan_bytes))
        return frazil.run(pipeline, spark=spark_session(pipeline), select=select, rebuild=rebuild, options=options)

    def orders(self) -> TableReport:
        return self.run().tables[0]

    def ids(self, mart: str = "orders") -> list[object]:
        where = {"kept": "NOT is_deleted", "orders_history": "is_current AND NOT is_deleted"}.get(mart, "true")
        return [key for (key,) in api.query(self.folder, f"SELECT id FROM marts.{mart} WHERE {where} ORDER BY id").rows]


@pytest.fixture(params=["driver", pytest.param("Spark", marks=pytest.mark.laws)])
def shop(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> Shop:
    """A shop whose small batches are judged by the driver, or by Spark."""
    del spark  # only there so that Java runs
    return Shop(tmp_path, Policy().driver_scan_bytes if request.param == "driver" else 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("strategy", "marts"),
    [
        pytest.param("row_delta", EVERY_MART, marks=pytest.mark.laws),
        ("row_delta", "[{kind: current}]"),
        ("delete_append", "[{kind: history}]"),
        pytest.param("overwrite", "[{kind: current, deletes: soft, name: kept}]", marks=pytest.mark.laws),
        pytest.param("recompute", "[{kind: current}]", marks=pytest.mark.laws),
    ],
)
def test_a_batch_with_a_value_that_another_row_has_is_published_in_no_mart(
    shop: Shop, strategy: Strategy, marts: str
) -> None:
    names = [*filter(None, (name if name in marts else "" for name in ("kept", "history")))]
    names = [{"history": "orders_history"}.get(name, name) for name in names] or ["orders"]
    shop.declare(UNIQUE, marts)
    shop.land(*(f"I,{n},1,c{n},1" for n in range(1, 6)), "I,6,1,NULL,1", "I,7,1,NULL,1")
    shop.run()
    shop.policy = Policy(strategy=strategy)
    # Values may change hands within a batch, and NULL is shared by many.
    shop.land("U,1,1,c2,1", "U,2,1,c1,1", "D,3,1,c3,1", "I,8,1,c3,1", "I,9,1,NULL,1", "I,10,1,c9,1", "U,10,2,c10,1")
    good = shop.orders()
    assert {mart.strategy for mart in good.marts} == {strategy}
    assert all(shop.ids(name) == [1, 2, 4, 5, 6, 7, 8, 9, 10] for name in names)

    shop.land("I,11,1,c4,1", "U,5,1,c50,1")
    with run_fails_with(RuleBrokenError, match="breaks? rule one_code, the first from .*: code: other rows") as caught:
        shop.run()
    assert caught.value.exit_code == 5
    assert all(shop.ids(name) == [1, 2, 4, 5, 6, 7, 8, 9, 10] for name in names)

    shop.land("U,4,1,c40,1", "I,12,1,c5,1")
    assert {mart.inserted for mart in shop.orders().marts} == {2}
    assert all(shop.ids(name) == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12] for name in names)


@pytest.mark.long
def test_values_shared_within_a_first_load_stop_it_and_warnings_count_rows(shop: Shop) -> None:
    marts = "[{kind: current}, {kind: history}]"
    shop.declare(UNIQUE, marts)
    shop.land("I,1,1,a,1", "I,2,1,a,1", "I,3,1,b,1")
    with run_fails_with(RuleBrokenError, match="2 rows break rule one_code"):
        shop.run()
    assert not shop.ids()

    shop.declare("[{name: one_code, unique: [code, customer], on_violation: warn}]", marts)
    report = shop.orders()

    assert report.broken_rules == {"one_code": 2}
    assert [text.split(",")[0] for text in report.warnings] == ["2 rows break rule one_code"]
    assert shop.ids() == shop.ids("orders_history") == [1, 2, 3]
    # Of a small batch its own rows count; a rebuild holds all.
    shop.policy = Policy(strategy="row_delta")
    shop.land("I,4,1,b,1", "U,1,1,a,2")
    assert shop.orders().broken_rules == {"one_code": 1}
    assert shop.run("orders", rebuild=True).tables[0].broken_rules == {"one_code": 2}


@pytest.mark.long
def test_references_are_held_against_what_the_same_run_makes_of_the_other_table(shop: Shop) -> None:
    """Orders are declared first, and refer by a wider type."""
    shop.declare(REFERENCES, "[{kind: current}]")
    shop.land("I,1,1,a,1", "I,2,1,a,NULL")
    with run_fails_with(RuleBrokenError, match="1 row breaks rule known, .*: customer: not in customers"):
        shop.run()
    shop.land("I,1,1", "I,2,1", "I,3,1", table="customers")
    shop.run()
    assert shop.ids() == [1, 2]

    shop.policy = Policy(strategy="row_delta")
    shop.land("I,3,1,a,2", "I,4,1,a,4", "D,1,1,a,1")
    shop.land("I,4,1", "D,3,1", table="customers")
    shop.run()
    assert shop.ids() == [2, 3, 4]

    shop.land("I,5,1,a,3", "I,6,1,a,2")
    with run_fails_with(RuleBrokenError, match="1 row breaks rule known"):
        shop.run()
    assert shop.ids() == [2, 3, 4]
    shop.declare(REFERENCES.replace("customers}", "customers}, on_violation: warn"), "[{kind: current}]")
    assert shop.orders().broken_rules == {"known": 1}


def test_rows_may_refer_to_rows_of_the_same_batch(shop: Shop) -> None:
    shop.declare("[{name: parent, references: {columns: [customer], to: orders, fields: [id]}}]", "[{kind: current}]")
    shop.land("I,1,1,a,NULL", "I,2,1,a,1", "I,3,1,a,2")
    shop.run()
    shop.policy = Policy(strategy="row_delta")
    shop.land("I,4,1,a,5", "I,5,1,a,4", "D,3,1,a,2")
    shop.run()
    assert shop.ids() == [1, 2, 4, 5]

    shop.land("I,6,1,a,3")
    with run_fails_with(RuleBrokenError, match="parent"):
        shop.run()
    assert shop.ids() == [1, 2, 4, 5]


@pytest.mark.long
def test_the_number_of_rows_is_bounded_before_they_are_seen(shop: Shop) -> None:
    shop.declare("[{name: size, row_count: {min: 2, max: 6, max_decrease_fraction: 0.4, max_increase_fraction: 0.5}}]")
    shop.land("I,1,1,a,1")
    with run_fails_with(RuleBrokenError, match="rule size is broken: 1 row, min is 2"):
        shop.run()
    shop.land(*(f"I,{n},1,a,1" for n in range(2, 6)))
    shop.run()
    shop.policy = Policy(strategy="row_delta")
    shop.land(*(f"D,{n},1,a,1" for n in range(1, 4)), "U,4,1,b,1")
    with run_fails_with(RuleBrokenError, match="5 rows would become 2, max_decrease_fraction is 0.4"):
        shop.run()
    assert shop.ids() == shop.ids("kept") == shop.ids("orders_history") == [1, 2, 3, 4, 5]

    # The next run takes both batches at once, and they leave enough.
    shop.land("I,1,1,a,1", "I,9,1,a,1")
    shop.run()
    assert shop.ids() == shop.ids("kept") == shop.ids("orders_history") == [1, 4, 5, 9]


@pytest.mark.long
def test_a_table_that_is_replaced_is_judged_before_it(shop: Shop) -> None:
    """Another partitioning cannot be had by a branch: the table is replaced in one commit."""
    shop.declare("[]", "[{kind: current}]")
    shop.land("I,1,1,a,1", "I,2,1,a,1")
    shop.run()

    shop.declare(UNIQUE, '[{kind: current, partition_by: ["bucket(2, id)"]}]')
    with run_fails_with(RuleBrokenError, match="2 rows break rule one_code"):
        shop.run("orders", rebuild=True)
    assert shop.ids() == [1, 2]


def test_deleted_rows_that_a_mart_keeps_share_no_value_and_are_referred_to_by_none(shop: Shop) -> None:
    rules = """
      - {name: one_code, unique: [code], on_violation: warn}
      - {name: parent, references: {columns: [customer], to: orders, fields: [id]}, on_violation: warn}"""
    shop.declare(rules, "[{kind: current, deletes: soft}]")
    shop.policy = Policy(strategy="row_delta")
    for records in (["I,1,1,a,1", "I,2,1,b,1"], ["D,2,1,b,1"]):
        shop.land(*records)
        assert shop.orders().broken_rules == {}

    shop.land("I,3,1,b,2")

    assert shop.orders().broken_rules == {"parent": 1}


def test_every_rule_of_a_small_batch_is_judged_by_the_driver(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way of checking counts the same rows; the other tests of this module run both ways."""
    counts: list[Any] = []

    def counted(*given: Any) -> Any:
        counts.append(counts_on_driver(*given))
        return counts[-1]

    rules = """
      - {name: one_code, unique: [code, ts], on_violation: warn}
      - {name: known, references: {columns: [customer], to: customers}, on_violation: warn}
      - {name: parent, references: {columns: [customer], to: orders, fields: [id]}, on_violation: warn}
      - {name: size, row_count: {max: 5}, on_violation: warn}"""
    shop.declare(rules, "[{kind: current, deletes: soft}]")
    shop.land("I,1,1", "I,2,1", "I,3,1", "D,3,2", table="customers")
    shop.land("I,1,1,a,1", "I,2,1,b,1", "I,3,1,c,2", "D,4,1,d,1")
    shop.run()
    monkeypatch.setattr(rules_of_rows, "counts_on_driver", counted)
    shop.policy = Policy(strategy="row_delta")
    shop.land("I,5,7,x,1", "I,6,7,x,3", "U,2,2,b,9", "D,3,1,c,2", "I,7,1,y,3", "I,8,1,z,NULL")
    report = shop.orders()

    first, second = (f"1/20260102-000000000.csv/landing/orders row {row}" for row in (1, 2))
    expected = [(2, first), (3, second), (3, second), (3, None)]
    assert counts == [expected if shop.driver_scan_bytes else NeedsSpark("large")]
    assert report.broken_rules == {"one_code": 2, "known": 3, "parent": 3, "size": 1}
