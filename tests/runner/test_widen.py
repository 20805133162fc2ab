"""EVOLVE: a wider type rewrites no row, and every engine reads files of both types in one table."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil import api
from frazil.plan.policy import Policy
from frazil.runner.options import RunOptions
from frazil.spark.session import spark_session
from frazil.steps import AlterTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.plan.policy import Strategy
    from frazil.runner.report import TableReport

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, format: parquet}}
    keys: [id]
    sequence_by: [ts]
    {columns}
    marts: [{{kind: current}}, {{kind: current, name: soft, deletes: soft}}, {{kind: history}}]
"""
MARTS = ("orders", "soft", "orders_history")
NARROW = {"id": pa.int32(), "n": pa.int32(), "total": pa.decimal128(8, 2)}
WIDE = {"id": pa.int64(), "n": pa.int64(), "total": pa.decimal128(20, 2)}
LARGE = 2**40


@dataclass
class Orders:
    """A pipeline of one table over Parquet files."""

    folder: Path
    strategy: Strategy | None = None

    def declare(self, **types: str) -> None:
        columns = ", ".join(f"{{name: {name}, type: '{kind}'}}" for name, kind in types.items())
        text = DECLARATION.format(columns=f"columns: [{columns}]" if types else "")
        (self.folder / "frazil.yml").write_text(text, encoding="utf-8")

    def land(self, types: dict[str, pa.DataType], *rows: tuple[str, int, Any, Any]) -> None:
        (self.folder / "landing").mkdir(exist_ok=True)
        number = len([*(self.folder / "landing").iterdir()]) + 1
        ops, ids, ns, totals = zip(*rows, strict=True)
        seconds = pa.array([number * 1_000_000] * len(rows), pa.timestamp("us", "UTC"))
        arrays = [pa.array(ops), pa.array(ids, types["id"]), seconds, pa.array(ns, types["n"])]
        arrays.append(pa.array([Decimal(total) for total in totals], types["total"]))
        table = pa.table(arrays, ["Op", "id", "ts", "n", "total"])
        pq.write_table(table, self.folder / "landing" / f"2026010{number}-000000000.parquet")

    def run(self) -> TableReport:
        pipeline = frazil.load(self.folder)
        options = RunOptions(policy=Policy(strategy=self.strategy))
        return frazil.run(pipeline, spark=spark_session(pipeline), options=options).tables[0]

    def rows(self, mart: str = "orders") -> list[tuple[Any, ...]]:
        """Rows of a mart as DuckDB reads them, and Spark too."""
        order = "ORDER BY id, n"
        asked = f"SELECT id, n, total FROM marts.{mart} {order}"
        by_duck = [tuple(row) for row in api.query(self.folder, asked).rows]
        pipeline = frazil.load(self.folder)
        by_spark = [tuple(row) for row in spark_session(pipeline).sql(asked.replace("marts.", "lake.marts.")).collect()]
        assert by_duck == by_spark
        return by_duck

    def types(self, table: str) -> dict[str, str]:
        pipeline = frazil.load(self.folder)
        return dict(spark_session(pipeline).table(f"lake.{table}").dtypes)

    def data_files(self) -> Sequence[Path]:
        return sorted(self.folder.glob("lake/*/*/data/**/*.parquet"))

    def is_sound(self) -> bool:
        return all(finding.ok is not False for finding in api.check(self.folder))


@pytest.fixture
def orders(tmp_path: Path, spark: SparkSession) -> Orders:
    del spark  # only there so that Java runs
    return Orders(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "strategy",
    ["row_delta", *(pytest.param(name, marks=pytest.mark.laws) for name in ("delete_append", "overwrite"))],
)
def test_a_source_that_widens_its_columns_widens_the_tables(orders: Orders, strategy: Strategy) -> None:
    orders.strategy = strategy
    orders.declare()
    orders.land(NARROW, ("I", 1, 1, "1.10"), ("I", 2, 2, "2.20"), ("I", 3, 3, "3.30"))
    orders.run()
    orders.land(WIDE, ("U", 1, LARGE, "123456789012345678.99"), ("I", LARGE, 4, "4.40"), ("D", 3, 3, "3.30"))

    planned = {step.name for step in api.plan(orders.folder).steps if isinstance(step, AlterTable)}
    report = orders.run()

    assert planned == {"silver.orders_changes", *(f"marts.{mart}" for mart in MARTS)}
    assert {mart.strategy for mart in report.marts} == {strategy}
    changed, new = (1, LARGE, Decimal("123456789012345678.99")), (LARGE, 4, Decimal("4.40"))
    assert orders.rows() == [changed, (2, 2, Decimal("2.20")), new]
    assert orders.rows("orders_history")[:2] == [(1, 1, Decimal("1.10")), changed]
    assert len(orders.rows("soft")) == 4
    assert {orders.types(f"marts.{mart}")["n"] for mart in MARTS} == {"bigint"}
    assert orders.types("silver.orders_changes")["total"] == "decimal(20,2)"
    assert report.quarantined == 0

    [first, second] = api.schema(orders.folder, "orders").changes
    assert (first.batch, first.fields, second.batch, second.added, second.removed) == (1, 5, 2, (), ())
    assert second.retyped == (
        ("id", "int", "bigint"),
        ("n", "int", "bigint"),
        ("total", "decimal(8,2)", "decimal(20,2)"),
    )

    # Narrower files again, and older ones, go on in the wider tables.
    orders.land(NARROW, ("U", 2, 5, "5.50"))
    orders.run()
    assert (2, 5, Decimal("5.50")) in orders.rows()
    assert orders.is_sound()
    rebuilt = {mart: orders.rows(mart) for mart in MARTS}
    api.rebuild(orders.folder, spark=spark_session(frazil.load(orders.folder)))
    assert {mart: orders.rows(mart) for mart in MARTS} == rebuilt


@pytest.mark.long
def test_a_wider_declared_type_writes_no_data_file(orders: Orders) -> None:
    orders.declare(id="int", ts="timestamp", n="int", total="decimal(8,2)")
    orders.land(NARROW, ("I", 1, 1, "1.10"), ("I", 2, 2, "2.20"))
    orders.run()
    files, before = orders.data_files(), orders.rows("orders_history")

    orders.declare(id="int", ts="timestamp", n="bigint", total="decimal(20,2)")
    orders.run()

    assert orders.data_files() == files
    assert orders.rows("orders_history") == before
    assert orders.types("marts.orders")["n"] == "bigint"
    assert api.plan(orders.folder).steps == ()
    orders.land(WIDE, ("U", 1, LARGE, "1.20"))
    orders.strategy = "row_delta"
    report = orders.run()
    assert {mart.strategy for mart in report.marts} == {"row_delta"}
    assert orders.rows()[0] == (1, LARGE, Decimal("1.20"))
    assert orders.is_sound()


@pytest.mark.long
def test_records_that_wait_for_the_wider_type_are_taken_by_a_rebuild(orders: Orders) -> None:
    orders.declare(id="int", ts="timestamp", n="int", total="decimal(8,2)")
    orders.land(WIDE, ("I", 1, 1, "1.10"), ("I", 2, LARGE, "2.20"))
    assert orders.run().quarantined == 1

    orders.declare(id="int", ts="timestamp", n="bigint", total="decimal(8,2)")
    orders.run()

    assert orders.rows() == [(1, 1, Decimal("1.10")), (2, LARGE, Decimal("2.20"))]
    assert orders.is_sound()


@pytest.mark.long
def test_a_float_that_becomes_a_double_is_rebuilt(orders: Orders) -> None:
    """The double of a float is another number than the double of its text."""
    orders.declare()
    narrow, wide = NARROW | {"n": pa.float32()}, NARROW | {"n": pa.float64()}
    orders.land(narrow, ("I", 1, 0.1, "1.10"))
    orders.run()
    orders.land(wide, ("I", 2, 0.1 + 0.2, "2.20"))

    assert {step.reason for step in api.plan(orders.folder).steps if hasattr(step, "reason")} == {"n is a double now"}
    orders.run()

    assert [n for _, n, _ in orders.rows()] == [0.1, 0.1 + 0.2]
    assert orders.is_sound()


def test_a_narrower_or_another_type_leaves_the_column_as_it_is(orders: Orders) -> None:
    orders.declare()
    orders.land(WIDE, ("I", 1, LARGE, "1.10"))
    orders.run()
    orders.land(
        NARROW | {"n": pa.string(), "total": pa.decimal128(20, 4)}, ("I", 2, "x", "2.2000"), ("I", 3, "7", "3.3001")
    )
    report = orders.run()

    assert orders.types("marts.orders")["n"] == "bigint"
    assert (report.quarantined, orders.rows()) == (2, [(1, LARGE, Decimal("1.10"))])
