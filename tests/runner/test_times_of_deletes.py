"""Deletes that repeat the row's old time: HISTORY and DELETES by the source's own time, through whole runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil import api
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DECLARATION = """\
pipeline: times
lake: {warehouse: ./lake}
tables:
  - name: dms
    source: {kind: dms, path: ./dms, header: true}
    keys: [id]
    sequence_by: [updated_at]
    columns: &columns [{name: id, type: int}, {name: status}, {name: updated_at, type: timestamp}]
    marts:
      - {kind: current, deletes: soft, name: dms_all}
      - {kind: history}
      - {kind: history, deletes: mark, name: dms_mark}
  - name: stamped
    source: {kind: dms, path: ./stamped, header: true}
    keys: [id]
    sequence_by: [at]
    columns: [{name: at, type: timestamp}, {name: id, type: int}, {name: status}]
    marts: [{kind: history}]
  - name: nameless
    source: {kind: dms, path: ./nameless, header: true}
    keys: [id]
    sequence_by: [updated_at]
    columns: *columns
    marts: [{kind: history}]
  - name: envelopes
    source: {kind: debezium, path: ./envelopes, settle_seconds: 0}
    keys: [id]
    effective_at: updated_at
    columns: *columns
    marts: [{kind: history}]
  - name: audit
    source: {kind: audit_log, path: ./audit, table: public.o}
    keys: [id]
    effective_at: updated_at
    columns: *columns
    marts: [{kind: history}]
"""
LOAD = "id,status,updated_at\n1,new,2024-03-01 10:00:00\n2,new,2024-03-01 10:00:00\n"
UPDATE = "Op,id,status,updated_at\nU,1,paid,2024-03-02 09:00:00\n"
DELETES = "Op,id,status,updated_at\nD,1,paid,2024-03-02 09:00:00\nD,2,new,2024-03-01 10:00:00\n"
STAMPED = "Op,at,id,status\nI,2021-07-08 10:47:53,1,n1\nD,2021-07-08 10:47:53,1,n1\nI,2021-07-08 10:47:53,1,n2\n"


def land(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def envelope(op: str, lsn: int, day: int, row: dict[str, Any]) -> str:
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    source = {"lsn": lsn, "ts_ms": 1_709_280_000_000 + (day - 1) * 86_400_000, "table": "o", "snapshot": "false"}
    return json.dumps({**images, "source": source, "op": op})


def audited(op: str, number: int, day: int, row: dict[str, Any]) -> str:
    own = {"audit_event_id": number, "audit_operation": op, "audit_timestamp": f"2024-03-0{day} 08:00:00"}
    return json.dumps({**own, "tbl_schema": "public", "tbl_name": "o", "raw_data": row, "old_data": None})


def row(number: int, status: str | None, day: int) -> dict[str, Any]:
    return {"id": number, "status": status, "updated_at": f"2024-03-0{day} 08:00:00"}


STORY = (("c", 1, row(1, "new", 1)), ("c", 1, row(2, "new", 1)), ("u", 2, row(1, "paid", 2)))
END = (("d", 5, row(1, "paid", 2)), ("d", 5, row(2, "new", 1)))


@pytest.mark.long
@pytest.mark.spark
def test_deletes_with_old_times_end_versions_when_the_source_says(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)
    letters = {"c": "I", "u": "U", "d": "D"}
    for number, story in enumerate((STORY, END)):
        first = 100 * number
        lines = [envelope(op, first + at, day, values) for at, (op, day, values) in enumerate(story)]
        records = [audited(letters[op], first + at, day, values) for at, (op, day, values) in enumerate(story)]
        land(
            tmp_path,
            **{
                f"envelopes__{number}.jsonl": "\n".join([*lines, ""]),
                f"audit__{number}.jsonl": "\n".join([*records, ""]),
            },
        )
    for folder, names in (("dms", ("20240302-101500123", "20240305-101500123")), ("nameless", ("1", "2"))):
        land(tmp_path, **{f"{folder}__LOAD01.csv": LOAD, f"{folder}__{names[0]}.csv": UPDATE})
    land(tmp_path, **{"stamped__20210708-104753500.csv": STAMPED})
    frazil.run(pipeline, spark=session)
    land(tmp_path, **{"dms__20240305-101500123.csv": DELETES, "nameless__2.csv": DELETES})

    report = frazil.run(pipeline, spark=session)

    def ask(mart: str, *columns: str) -> list[str]:
        shown = ", ".join(columns or ("valid_from", "valid_to", "is_deleted"))
        found = api.query(tmp_path, f"SELECT id, status, {shown} FROM marts.{mart} ORDER BY id, 3, 4").rows
        return [" ".join(f"{value:%d:%H}" if hasattr(value, "hour") else f"{value}" for value in one) for one in found]

    day = "1 new 01:10 02:09 False", "1 paid 02:09 05:10 True", "2 new 01:10 05:10 True"
    assert ask("dms_history") == [*day]
    assert ask("dms_all", "deleted_at", "is_deleted") == ["1 paid 05:10 True", "2 new 05:10 True"]
    assert "1 paid 05:10 None True" in ask("dms_mark")
    for mart in ("envelopes_history", "audit_history"):
        assert ask(mart) == ["1 new 01:08 02:08 False", "1 paid 02:08 05:08 True", "2 new 01:08 05:08 True"]
    assert ask("stamped_history") == ["1 n1 08:10 08:10 True", "1 n2 08:10 None False"]
    assert ask("nameless_history") == ["1 new 01:10 02:09 False", "1 paid 02:09 02:09 True", "2 new 01:10 01:10 True"]
    assert {one.table: one.untimed_deletes for one in report.tables}["nameless"] == 2
    assert {one.table: one.untimed_deletes for one in report.tables}["dms"] == 0
