"""EVOLVE: a column that is declared when its field first comes rewrites no row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.failing import run_fails_with

import frazil
from frazil import api
from frazil.failpoints import FailpointReached
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.report import TableReport

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true, settle_seconds: 0}}
    keys: [id]
    sequence_by: [ts]
    columns: [{{name: id, type: int}}, {{name: ts, type: timestamp}}, {more}{{name: status}}]
    marts: [{{kind: current}}, {{kind: current, name: soft, deletes: soft}}, {{kind: history}}]
"""
TABLES = ("silver.orders_changes", "marts.orders", "marts.soft", "marts.orders_history")
WEIGHT = "{name: weight, type: int}, "


@dataclass
class Orders:
    """A pipeline of one table over CSV files."""

    folder: Path

    def declare(self, more: str = "") -> None:
        (self.folder / "frazil.yml").write_text(DECLARATION.format(more=more), encoding="utf-8")

    def land(self, header: str, *rows: str) -> None:
        (self.folder / "landing").mkdir(exist_ok=True)
        number = len([*(self.folder / "landing").iterdir()])
        file = self.folder / "landing" / f"20260101-00000000{number}.csv"
        file.write_text("\n".join((header, *rows, "")), encoding="utf-8")

    def run(self, *, rebuild: bool = False) -> TableReport:
        pipeline = frazil.load(self.folder)
        return frazil.run(pipeline, spark=spark_session(pipeline), rebuild=rebuild).tables[0]

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Rows of all marts."""
        asked = {"orders": "id", "soft": "id, is_deleted", "orders_history": "id, valid_from, valid_to"}
        return {
            mart: [
                *map(
                    tuple, api.query(self.folder, f"SELECT {keys}, weight, status FROM marts.{mart} ORDER BY ALL").rows
                )
            ]
            for mart, keys in asked.items()
        }

    def data_files(self) -> set[str]:
        spark = spark_session(frazil.load(self.folder))
        return {row[0] for table in TABLES for row in spark.table(f"lake.{table}.data_files").collect()}


@pytest.fixture
def orders(tmp_path: Path, spark: SparkSession) -> Orders:
    """A lake that has taken a load without a weight."""
    del spark  # only there so that Java runs
    orders = Orders(tmp_path)
    orders.declare()
    orders.land("Op,id,ts,status", *(f"I,{key},2026-01-02 00:00:00,new" for key in range(1, 6)))
    orders.run()
    return orders


@pytest.mark.long
@pytest.mark.parametrize(
    "killed",
    ["silver.before_publish", *(pytest.param(one, marks=pytest.mark.laws) for one in ("", "mart.before_publish"))],
)
def test_a_column_declared_as_its_field_comes_rewrites_no_file(
    killed: str, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed in between finds the field in bronze, and still no row that carries it in the others."""
    before = orders.data_files()
    orders.declare(WEIGHT)
    orders.land(
        "Op,id,ts,status,weight",
        "U,1,2026-01-03 00:00:00,paid,7",
        "U,2,2026-01-03 00:00:00,paid,",
        "D,3,2026-01-03 00:00:00,,",
    )
    if killed:
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{killed}:raise")
        with run_fails_with(FailpointReached):
            orders.run()
        monkeypatch.delenv("FRAZIL_FAILPOINT")

    assert not any(getattr(step, "rebuild", False) for step in api.plan(orders.folder).steps)
    report = orders.run()

    assert before <= orders.data_files()
    assert {mart.strategy for mart in report.marts} <= {"row_delta", "delete_append"}
    assert orders.rows()["orders"] == [(1, 7, "paid"), (2, None, "paid"), (4, None, "new"), (5, None, "new")]


@pytest.mark.long
def test_rows_are_what_a_rebuild_makes_of_them(orders: Orders) -> None:
    """MISSING-IS-NOT-NULL: changes before the column came do not carry it, so a late one gives them its value."""
    orders.declare(WEIGHT)
    orders.land("Op,id,ts,status,weight", "U,1,2026-01-03 00:00:00,paid,7", "U,4,2026-01-01 00:00:00,late,9")
    orders.land("Op,id,ts,status,weight", "U,5,2026-01-01 00:00:00,late,11", "U,2,2026-01-04 00:00:00,paid,8")
    orders.run()
    rows = orders.rows()

    orders.run(rebuild=True)

    assert rows["orders"] == [(1, 7, "paid"), (2, 8, "paid"), (3, None, "new"), (4, 9, "new"), (5, 11, "new")]
    assert orders.rows() == rows
    assert all(finding.ok is not False for finding in api.check(orders.folder))


@pytest.mark.long
def test_a_field_that_was_there_before_its_column_is_read_again(orders: Orders) -> None:
    orders.land("Op,id,ts,status,weight", "U,1,2026-01-03 00:00:00,paid,7")
    orders.run()
    orders.declare(WEIGHT)
    orders.land("Op,id,ts,status,weight", "U,2,2026-01-03 00:00:00,paid,8")

    report = orders.run()

    assert {mart.strategy for mart in report.marts} == {"recompute"}
    assert orders.rows()["orders"][:2] == [(1, 7, "paid"), (2, 8, "paid")]
