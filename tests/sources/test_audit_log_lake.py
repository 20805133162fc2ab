"""An audit log's changes in the tables of a lake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil import api
from frazil.runner.steps import truncates
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: audit_log, path: ./landing, table: orders, old_data: old_data}
    keys: [id]
    columns:
      - {name: id, type: bigint}
      - {name: ingested_at, type: timestamp}
      - {name: source_file}
      - "*"
    marts: [{kind: current}, {kind: history}]
"""


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Callable[..., Any]:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(DECLARATION)
    (tmp_path / "landing").mkdir()

    def land(name: str, *changes: tuple[int, str, Any, Any]) -> frazil.RunReport:
        records = [
            {
                "audit_event_id": number,
                "audit_operation": op,
                "audit_timestamp": f"2026-01-01 00:00:{number:02}",
                "tbl_name": "orders",
                "raw_data": json.dumps(row) if row else None,
                "old_data": json.dumps(old) if old else None,
            }
            for number, op, row, old in changes
        ]
        (tmp_path / "landing" / f"{name}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
        pipeline = frazil.load(tmp_path)
        report = frazil.run(pipeline, spark=spark_session(pipeline))
        assert all(finding.ok is not False for finding in check(frazil.load(tmp_path)))
        return report

    def ask(sql: str) -> Sequence[tuple[Any, ...]]:
        return [tuple(row) for row in query(frazil.load(tmp_path), sql).rows]

    land.ask = ask  # type: ignore[attr-defined]
    return land


@pytest.mark.long
def test_a_changed_key_leaves_no_row_behind_and_keeps_its_story(lake: Any) -> None:
    lake("a", (1, "I", {"id": 1, "amount": 10}, None), (2, "U", {"id": 2, "amount": 10}, {"id": 1}))

    assert lake.ask("SELECT id FROM marts.orders") == [(2,)]
    assert lake.ask("SELECT id, is_current FROM marts.orders_history ORDER BY id") == [(1, False), (2, True)]


@pytest.mark.long
def test_events_that_come_again_in_other_files_change_nothing(lake: Any) -> None:
    events = [
        (1, "I", {"id": 1, "amount": 1, "note": "a"}, None),
        (2, "U", {"id": 1, "amount": 2, "note": "b"}, None),
        (3, "D", {"id": 1, "amount": 2, "note": "b"}, None),
        (4, "I", {"id": 1, "amount": 5, "note": "c"}, None),
    ]
    lake("one", *events[:3])
    lake("two", *events[1:])
    lake("three", *events[:2])

    assert lake.ask("SELECT id, amount FROM marts.orders") == [(1, "5")]
    history = lake.ask("SELECT note, is_current FROM marts.orders_history ORDER BY valid_from")
    assert history == [("a", False), ("b", False), ("c", True)]


@pytest.mark.long
def test_a_mart_can_say_when_and_from_where_a_row_came(lake: Any) -> None:
    lake("a", (1, "I", {"id": 1, "amount": "0.10"}, None))
    lake("b", (2, "U", {"id": 1, "amount": "0.20"}, None), (3, "I", {"id": 2, "size": "L"}, None))

    assert lake.ask("SELECT id, source_file, size FROM marts.orders ORDER BY id") == [
        (1, "landing/b.jsonl", None),
        (2, "landing/b.jsonl", "L"),
    ]
    [(newest, arrived)] = lake.ask(
        "SELECT max(ingested_at), (SELECT max(_cdc_arrived_at) FROM bronze.orders) FROM marts.orders"
    )
    assert newest == arrived


@pytest.mark.long
def test_a_field_that_is_missing_keeps_its_value_and_null_does_not(lake: Any) -> None:
    lake("a", (1, "I", {"id": 1, "note": "x"}, None), (2, "I", {"id": 2, "note": "x"}, None))
    lake("b", (3, "U", {"id": 1, "amount": 1}, None), (4, "U", {"id": 2, "note": None}, None))

    assert lake.ask("SELECT id, note, source_file FROM marts.orders ORDER BY id") == [
        (1, "x", "landing/b.jsonl"),
        (2, None, "landing/b.jsonl"),
    ]


@pytest.mark.long
def test_a_truncate_empties_the_table_and_many_are_warned_of(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncates, "_MANY", 1)
    one = lake("b", (3, "T", None, None), (4, "I", {"id": 3}, None))
    late = lake("a", (1, "I", {"id": 1}, None), (2, "I", {"id": 2}, None))
    two = lake("c", (5, "T", None, None), (6, "I", {"id": 3}, None))

    assert ["are kept" in f"{report.tables[0].warnings}" for report in (one, late, two)] == [False, False, True]
    assert lake.ask("SELECT id FROM marts.orders") == [(3,)]
    assert lake.ask("SELECT count(*) FROM silver.orders_quarantine") == [(0,)]


@pytest.mark.laws
def test_the_schema_tells_fields_inside_of_json_from_what_each_record_gets(lake: Any, tmp_path: Path) -> None:
    lake("a", (1, "I", {"id": 1, "amount": 10}, None))
    lake("b", (2, "I", {"id": 2, "amount": 10, "gift": True}, None))
    found = {one.name: (one.comes_from, one.since_batch) for one in api.schema(tmp_path, "orders").columns}

    assert found["source_file"] == ("source", 1)
    assert found["amount"] == ("field", 1)
    assert found["gift"] == ("field", 2)
