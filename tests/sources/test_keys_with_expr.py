"""KEY-CHANGE: the key before a change is made by the expression of the key, as the key is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOURCES = {
    "dms": "kind: dms, path: ./dms, header: true, before_image_prefix: BI_",
    "audit": "kind: audit_log, path: ./audit, table: orders, old_data: old_data",
    "debezium": "kind: debezium, path: ./debezium",
}
DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
"""
TABLE = """
  - name: %s
    source: {%s}
    keys: [code]
    columns: [{name: code, expr: "lower(rtrim(code))"}, {name: v}]
    marts: [{kind: current}]
"""


def audit(number: int, op: str, row: dict[str, str], old: dict[str, str] | None = None) -> dict[str, Any]:
    at = f"2026-01-01 00:00:{number:02}"
    told = {"audit_event_id": number, "audit_operation": op, "audit_timestamp": at, "tbl_name": "orders"}
    return {**told, "raw_data": json.dumps(row), "old_data": old and json.dumps(old)}


def event(lsn: int, op: str, row: dict[str, str], old: dict[str, str] | None = None) -> dict[str, Any]:
    source = {"lsn": lsn, "sequence": json.dumps([f"{lsn - 1}", f"{lsn}"]), "ts_ms": lsn * 1000, "snapshot": "false"}
    return {"op": op, "before": old, "after": row, "source": source}


@pytest.mark.long
def test_a_changed_key_with_an_expression_leaves_no_row_behind(tmp_path: Path, spark: SparkSession) -> None:
    del spark  # only there so that Java runs
    tables = "".join(TABLE % one for one in SOURCES.items())
    (tmp_path / "frazil.yml").write_text(f"{DECLARATION}{tables}")
    first, second, old = {"code": "AB  ", "v": "x"}, {"code": "CD  ", "v": "y"}, {"code": "AB  ", "v": "x"}
    for name in SOURCES:
        (tmp_path / name).mkdir()
    lines = "Op,code,v,BI_code\nI,AB  ,x,NULL\nI,EF  ,z,NULL\nU,CD  ,y,AB  \nU,EF  ,w,EF  \n"
    (tmp_path / "dms" / "20260101-000000001.csv").write_text(lines)
    other, again = {"code": "EF  ", "v": "z"}, {"code": "EF  ", "v": "w"}
    for name, made, create, update in (("audit", audit, "I", "U"), ("debezium", event, "c", "u")):
        found = [made(1, create, first), made(2, create, other), made(3, update, second, old)]
        found.append(made(4, update, again, other))
        (tmp_path / name / "1.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in found))
    pipeline = frazil.load(tmp_path)

    frazil.run(pipeline, spark=spark_session(pipeline))

    for name in SOURCES:
        rows = query(frazil.load(tmp_path), f"SELECT code, v FROM marts.{name} ORDER BY code").rows
        assert [tuple(row) for row in rows] == [("cd", "y"), ("ef", "w")], name
    assert [one for one in check(frazil.load(tmp_path)) if one.ok is False] == []
