"""Contracts: records that break a rule are quarantined or counted, or stop the run before it publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.failing import run_fails_with

import frazil
from frazil import api
from frazil.plan.policy import Policy
from frazil.runner.limits.rules import RuleBrokenError
from frazil.runner.options import RunOptions
from frazil.spark.expressions import SqlError
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.report import TableReport

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true}}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {{name: id, type: int}}
      - {{name: ts, type: timestamp}}
      {columns}
    {rules}
    marts: [{{kind: current}}, {{kind: history}}]
"""


class Orders:
    """A pipeline of one table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.policy = Policy()
        (folder / "landing").mkdir()

    def declare(self, *columns: str, rules: str = "") -> None:
        text = DECLARATION.format(columns="\n      ".join(columns), rules=rules and f"rules: {rules}")
        (self.folder / "frazil.yml").write_text(text, encoding="utf-8")

    def land(self, fields: str, *records: str) -> None:
        number = len([*(self.folder / "landing").iterdir()]) + 1
        lines = [f"op,id,ts,{fields}", *(_with_time(record) for record in records), ""]
        (self.folder / "landing" / f"2026010{number}-000000000.csv").write_text("\n".join(lines), encoding="utf-8")

    def run(self) -> TableReport:
        pipeline = frazil.load(self.folder)
        return frazil.run(pipeline, spark=spark_session(pipeline), options=RunOptions(policy=self.policy)).tables[0]

    def ask(self, sql: str) -> Sequence[tuple[object, ...]]:
        return [tuple(row) for row in api.query(self.folder, sql).rows]

    @property
    def ids(self) -> list[object]:
        return [key for (key,) in self.ask("SELECT id FROM marts.orders ORDER BY id")]

    @property
    def bad(self) -> dict[object, tuple[object, ...]]:
        rows = self.ask(
            "SELECT json_extract_string(raw, 'id')::int, rule, \"column\", reason FROM silver.orders_quarantine"
        )
        return {key: tuple(rest) for key, *rest in rows}


def _with_time(record: str) -> str:
    op, key, second, *rest = record.split(",")
    return ",".join([op, key, f"2026-01-01 00:00:{second:0>2}", *rest])


@pytest.fixture
def orders(tmp_path: Path, spark: SparkSession) -> Orders:
    del spark  # only there so that Java runs
    return Orders(tmp_path)


COLUMNS = (
    '- {name: status, accepted_values: [new, paid, "it\'s"]}',
    "- {name: total, type: 'decimal(12,2)', min: 0.001, max: 100}",
    "- {name: code, pattern: '^[A-Z]{2}\\d$', min_length: 2, max_length: 3, nullable: false}",
    "- {name: day, type: date, min: 2020-01-01}",
    "- {name: share, type: float, accepted_values: [0.1, 0.5]}",
)
FIELDS = "status,total,code,day,share"
GOOD = "paid,1.00,AB1,2024-01-01,0.1"


@pytest.mark.long
@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy(plain=False), pytest.param(Policy(driver_bytes=0), marks=pytest.mark.laws)],
    ids=["small", "by Spark", "streamed"],
)
def test_records_that_break_a_column_rule_are_quarantined(orders: Orders, policy: Policy) -> None:
    orders.policy = policy
    orders.declare(*COLUMNS)
    orders.land(
        FIELDS,
        f"I,1,1,{GOOD}",
        "I,2,1,lost,1.00,AB1,2024-01-01,0.1",
        "I,3,1,it's,0.00,AB1,2024-01-01,0.1",
        "I,4,1,new,100.01,AB1,2024-01-01,0.1",
        "I,5,1,new,1.00,ab1,2024-01-01,0.1",
        "I,6,1,new,1.00,A,2024-01-01,0.1",
        "I,7,1,new,1.00,AB12,2024-01-01,0.1",
        "I,8,1,new,1.00,NULL,2024-01-01,0.1",
        "I,9,1,new,1.00,AB1,2019-12-31,0.1",
        "I,10,1,new,1.00,AB1,2024-01-01,0.2",
        "I,11,1,NULL,NULL,AB1,NULL,NULL",
        "I,12,1,it's,100,AB1,2020-01-01,0.5",
        "D,12,2,wrong,999,x,1900-01-01,7",
        "I,13,1,new,0.01,AB1,2020-01-01,0.5",
    )
    report = orders.run()

    assert orders.ids == [1, 11, 13]
    assert report.quarantined == 9
    assert {key: rule for key, (rule, _, _) in orders.bad.items()} == {
        2: "accepted_values",
        3: "min",
        4: "max",
        5: "pattern",
        6: "pattern",
        7: "pattern",
        8: "not_null",
        9: "min",
        10: "accepted_values",
    }
    assert orders.bad[2] == ("accepted_values", "status", "status is none of new, paid, it's: lost")
    assert orders.bad[3][2] == "total is less than 0.001: 0.00"
    assert orders.bad[8][2] == "code is NULL"
    assert all(finding.ok is not False for finding in api.check(orders.folder))


@pytest.mark.long
def test_a_rule_over_columns_sees_them_typed_and_one_that_fails_is_broken(orders: Orders) -> None:
    columns = ("- {name: sent, type: date}", "- {name: paid, type: date}", "- {name: n, type: int}")
    rules = '[{name: in_order, expr: "sent >= paid"}, {name: whole, expr: "12 % n = 0"}]'
    orders.declare(*columns, rules=rules)
    orders.land(
        "sent,paid,n",
        "I,1,1,2024-01-10,2024-01-09,3",
        "I,2,1,2024-01-02,2024-01-10,3",
        "I,3,1,NULL,2024-01-10,3",
        "I,4,1,2024-01-02,2024-01-02,5",
        "I,5,1,2024-01-02,2024-01-02,0",
        "D,1,2,2024-01-02,2024-01-10,0",
    )
    orders.run()

    assert orders.ids == [3]
    assert {key: rule for key, (rule, _, _) in orders.bad.items()} == {2: "in_order", 4: "whole", 5: "whole"}
    assert orders.bad[2][2] == "not so: sent >= paid, sent = 2024-01-02, paid = 2024-01-10"
    assert orders.bad[5][2] == "not so: 12 % n = 0, n = 0"


def test_a_rule_that_warns_counts_and_comes_without_a_rebuild(orders: Orders) -> None:
    orders.declare("- {name: n, type: int}")
    orders.land("n", "I,1,1,1", "I,2,1,-2")
    orders.run()

    rules = '[{name: small, expr: "10 / (n - 5) < 5", on_violation: warn}]'
    orders.declare("- {name: n, type: int, nullable: false, min: 0, on_violation: warn}", rules=rules)
    assert api.plan(orders.folder).steps == ()
    orders.land("n", "I,3,1,-3", "I,4,1,NULL", "I,5,1,5", "I,6,1,6", "I,7,1,8", "D,7,2,-1")
    report = orders.run()

    assert orders.ids == [1, 2, 3, 4, 5, 6]
    assert report.quarantined == 0
    assert report.broken_rules == {"not_null of n": 1, "min of n": 1, "small": 2}
    assert (
        "1 change breaks rule min of n, the first in landing/20260102-000000000.csv row 1: n is less than 0"
        in report.warnings
    )


def test_a_rule_that_stops_the_run_shows_nothing_of_the_batch(orders: Orders) -> None:
    orders.declare("- {name: n, type: int, max: 9, on_violation: fail}")
    orders.land("n", "I,1,1,1")
    orders.run()
    orders.land("n", "I,2,1,2", "I,3,1,10")
    with run_fails_with(RuleBrokenError) as failed:
        orders.run()

    assert "1 change breaks rule max of n, the first in landing/20260102-000000000.csv row 2" in f"{failed.value}"
    assert orders.ids == [1]
    orders.declare("- {name: n, type: int, max: 10, on_violation: fail}")
    orders.run()
    assert orders.ids == [1, 2, 3]


@pytest.mark.laws
def test_a_rule_that_quarantines_is_part_of_what_silver_is_made_of(orders: Orders) -> None:
    orders.declare("- {name: n, type: int}")
    orders.land("n", "I,1,1,1", "I,2,1,-2")
    orders.run()
    orders.declare("- {name: n, type: int, min: 0}")
    orders.run()
    strict = orders.ids
    orders.declare("- {name: n, type: int, min: 0}", rules='[{name: odd, expr: "n % 2 = 1"}]')
    orders.land("n", "I,4,1,4", "I,5,1,5")
    orders.run()

    assert strict == [1]
    assert orders.ids == [1, 5]
    orders.declare("- {name: n, type: int}")
    orders.run()
    assert orders.ids == [1, 2, 4, 5]


@pytest.mark.long
def test_missing_fields_do_not_break_a_rule(orders: Orders) -> None:
    rules = '[{name: both, expr: "n IS NOT NULL AND note IS NOT NULL"}, '
    rules += '{name: said, expr: "note IS NOT NULL", on_violation: warn}]'
    orders.declare("- {name: n, type: int, nullable: false}", "- {name: note, nullable: false}", rules=rules)
    orders.land("n,note", "I,1,1,1,a")
    orders.land("n", "U,1,2,2", "I,2,2,NULL")
    report = orders.run()

    assert orders.ask("SELECT id, n, note FROM marts.orders") == [(1, 2, "a")]
    assert {key: rule for key, (rule, _, _) in orders.bad.items()} == {2: "not_null"}
    assert report.broken_rules == {}


@pytest.mark.parametrize(
    ("column", "rules", "said"),
    [
        ("- {name: n, pattern: '['}", "", "pattern of column 'n'"),
        ("- {name: n}", '[{name: odd, expr: "n + current"}]', "rule 'odd'"),
        ("- {name: n, type: int}", '[{name: odd, expr: "n + 1"}]', "rule 'odd'"),
    ],
)
def test_spark_sees_rules_before_anything_is_written(orders: Orders, column: str, rules: str, said: str) -> None:
    orders.declare(column, "- '*'", rules=rules)
    orders.land("n", "I,1,1,1")
    with run_fails_with(SqlError) as failed:
        orders.run()

    assert said in f"{failed.value}"
    assert not (orders.folder / "lake" / "silver").exists()
