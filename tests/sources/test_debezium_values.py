"""Values of Debezium in the tables of a lake: digits, spans, placeholders, invalid values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.serve.query.query import query
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROW = [
    {"field": "id", "type": "int32"},
    {"field": "at", "type": "int64", "name": "io.debezium.time.NanoTimestamp"},
    {"field": "span", "type": "int64", "name": "io.debezium.time.MicroTime"},
    {"field": "note", "type": "string"},
]
NOTE = "__debezium_unavailable_value"
DECLARATION = """
pipeline: values
lake: {warehouse: ./lake}
tables:
  - {name: cut, source: &files {kind: debezium, path: ./landing, settle_seconds: 0}, keys: [id]}
  - {name: kept, source: *files, keys: [id], beyond_microseconds: text}
"""


def line(number: int, op: str, **row: Any) -> str:
    sides = [{"field": side, "type": "struct", "fields": ROW} for side in ("before", "after")]
    image = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    payload = {**image, "op": op, "source": {"lsn": number, "ts_ms": number}}
    return json.dumps({"schema": {"type": "struct", "fields": sides}, "payload": payload}) + "\n"


@pytest.mark.long
def test_values_are_what_they_say_or_in_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    lines = [
        line(1, "c", id=1, at=1_699_406_411_373_333_800, span=108_900_000_000, note="long"),
        line(2, "u", id=1, at=1_699_406_411_373_333_900, span=-5_400_000_000, note=NOTE),
        line(3, "c", id=2, at=0, span="10:00:00", note="a text where a number belongs"),
        line(4, "c", id=3, at=0, span=0, note="goes"),
        line(5, "d", id=3, at=0, span="10:00:00", note=None),
    ]
    (tmp_path / "landing" / "1.jsonl").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline = frazil.load(tmp_path)

    report = frazil.run(pipeline, spark=spark_session(pipeline))
    select = 'SELECT id, CAST("at" AS varchar), span, note FROM'
    cut, kept = (query(pipeline, f"{select} {name}").rows for name in ("cut", "kept"))

    assert [*map(tuple, cut)] == [(1, "2023-11-08 01:20:11.373333", "-01:30:00", "long")]
    assert [*map(tuple, kept)] == [(1, "2023-11-08 01:20:11.3733339", "-01:30:00", "long")]
    assert [table.quarantined for table in report.tables] == [1, 1]
    assert [[text[:9] for text in table.warnings] for table in report.tables] == [["FZ414: at"], []]
