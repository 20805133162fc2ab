"""Structs and arrays of JSON in the tables of a lake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyiceberg.table import StaticTable

import frazil
from frazil import api
from frazil.serve.check.check import check
from frazil.serve.query.plain import plain
from frazil.serve.query.query import query
from frazil.serve.tables import tables
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARATION: Final = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: audit_log, path: ./landing, table: orders, old_data: old_data}
    keys: [id]
    sequence_by: [changed_at]
    columns:
      - {name: id, type: bigint}
      - {name: changed_at, type: timestamp}
      - {name: items, type: "array<struct<sku: string, price: decimal(12,2)>>"}
      - {name: address, type: "struct<street: string, zip: int>"}
    marts: [{kind: current}, {kind: history}]
"""


def land(folder: Path, first: int, *documents: tuple[str, str, str | None]) -> None:
    lines = []
    for number, (op, inner, old) in enumerate(documents, first):
        record = {"audit_event_id": number, "audit_operation": op, "tbl_name": "orders", "old_data": old}
        time = f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
        lines.append(
            json.dumps({**record, "audit_timestamp": time, "raw_data": f'{{"changed_at": "{time}", {inner}}}'})
        )
    (folder / "landing" / f"{first}.jsonl").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.long
def test_nested_columns_are_kept_compared_and_checked(tmp_path: Path, spark: SparkSession) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(DECLARATION)
    (tmp_path / "landing").mkdir()
    pipeline = frazil.load(tmp_path)

    def ask(sql: str) -> list[Any]:
        return [plain(row) for row in query(pipeline, sql).rows]

    many = [("I", f'"id": {number}, "items": [], "address": null', None) for number in range(10, 60)]
    one = '"id": 1, "items": [{"sku": "a", "price": 1.50}, {"price": 9007199254.93}], "address": {"zip": 1}'
    wrong = '"id": 3, "items": [{"price": 1.505}], "address": null'
    land(tmp_path, 100, ("I", one, None), ("I", wrong, None), *many)
    frazil.run(pipeline, spark=spark_session(pipeline))
    # The same value otherwise written, with a field that nobody declared; then another one; then another key.
    same = (
        '"id": 1, "address": {"new": [1], "zip": 1}, "items": [{"price": 1.5, "sku": "a"}, {"price": 9007199254.930}]'
    )
    land(
        tmp_path,
        200,
        ("U", same, None),
        ("U", '"id": 10, "items": null, "address": {"street": "x", "zip": 2}', None),
        ("U", '"id": 12, "items": [], "address": {}', '{"id": 11}'),
    )
    report = frazil.run(pipeline, spark=spark_session(pipeline))

    [warning] = report.tables[0].warnings
    assert "address: 1 record has a field that its type does not name, such as address.new. Bronze keeps it" in warning
    items = [{"sku": "a", "price": "1.50"}, {"sku": None, "price": "9007199254.93"}]
    assert ask("SELECT id, items, address FROM marts.orders WHERE id IN (1, 10, 11, 12) ORDER BY id") == [
        [1, items, {"street": None, "zip": 1}],
        [10, None, {"street": "x", "zip": 2}],
        [12, [], {"street": None, "zip": None}],
    ]
    assert ask("SELECT id, address.zip FROM marts.orders_history WHERE id IN (1, 10, 11) ORDER BY id, valid_from") == [
        [1, 1],
        [10, None],
        [10, 2],
        [11, None],
    ]
    assert ask('SELECT rule, reason, "column" FROM silver.orders_quarantine') == [
        ["cast", "not exactly an array: $[0].price is 1.505", "items"]
    ]
    assert {mart.strategy for table in report.tables for mart in table.marts} == {"row_delta"}
    assert all(finding.ok is not False for finding in check(pipeline))

    changed = {row.key["id"]: row for row in api.diff(pipeline, "orders", "batch:1", "batch:2").rows}
    assert [(key, row.change) for key, row in changed.items()] == [
        (1, "updated"),
        (10, "updated"),
        (11, "deleted"),
        (12, "updated"),
    ]
    assert (changed[1].old or {})["items"] == (changed[1].new or {})["items"]
    assert plain([(changed[10].old or {})["address"], (changed[10].new or {})["address"]]) == [
        None,
        {"street": "x", "zip": 2},
    ]
    there = StaticTable.from_metadata(tables(pipeline)["marts", "orders"])
    [row] = there.scan(row_filter="id = 1", selected_fields=("items", "address")).to_arrow().to_pylist()
    assert row["address"] == {"street": None, "zip": 1}
    (tmp_path / "dump.jsonl").write_text('{"id": 1, "address": {}}\n')
    [finding] = api.check_source(pipeline, select=["orders"], against=tmp_path / "dump.jsonl")
    assert "not compared: changed_at, items, address" in finding.detail
