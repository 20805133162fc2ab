"""NOTHING-LOST: names of columns, tables, shards and files are data, from every kind of source."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.hostile.situation import command

import frazil
from frazil.sources.capture import Landed
from frazil.sources.postgres.capture import PostgresCapture
from frazil.sources.postgres.landed.files import schema_of
from frazil.sources.postgres.landed.landing import hex_lsn, range_name
from frazil.spark.session import spark_session
from frazil.spec.model.kinds.postgres import COMMITTED_AT, OLD, OP, POSITION, UNCHANGED, XID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

COLUMNS: Final = (
    'a "quoted" name',
    "it's",
    "'; DROP TABLE t; --",
    "🐘",
    "`ticks`",
    "a.b",
    "../../../../etc/passwd",
    "${env:HOME}",
)
WORSE: Final = {"a line\nend": "a line_end", "a\ttab": "a_tab", "x" * 3000: "x" * 255}
"""These nobody may declare; what they are called in the lake."""
VALUES: Final = {name: f"value of {name}" for name in (*COLUMNS, *WORSE)}
FILES: Final = (
    "'; DROP TABLE t; --",
    '"quoted"',
    "a line\nend",
    "🐘",
    "a..%2f..%2fetc",
    "${env:HOME}",
    "{x,y}*?[z]",
    "x" * 200,
)
NAME: Final = 'it\'s; DROP TABLE "t"; -- 🐘'
"""Of a table at its source, and of a shard."""
TS: Final = "2026-01-01 00:00:00"


def row(number: int) -> dict[str, Any]:
    """A row of the source: a key, a time, and hostile values in hostile columns."""
    return {"id": number, "ts": TS, **VALUES}


def csv_text(*records: Mapping[str, Any]) -> str:
    """Write CSV with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*records[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def put(folder: Path, name: str, content: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content, encoding="utf-8", newline="")


def dms(folder: Path) -> str:
    for number, name in enumerate(FILES):
        put(folder, f"{name}.csv", csv_text({"op": "I", **row(number)}))
    return "kind: dms, path: ./HERE, header: true, settle_seconds: 0"


def dms_parquet(folder: Path) -> str:
    folder.mkdir(parents=True)
    for number, name in enumerate(FILES):
        rows = pa.Table.from_pylist([{"op": "I", **row(number)}])
        pq.write_table(rows, folder / f"{name}.parquet")
    return "kind: dms, path: ./HERE, format: parquet, settle_seconds: 0"


def audit_log(folder: Path) -> str:
    for number, name in enumerate(FILES):
        line = {
            "audit_event_id": number,
            "audit_operation": "I",
            "audit_timestamp": TS,
            "tbl_schema": "public",
            "tbl_name": NAME,
            "raw_data": json.dumps(row(number)),
        }
        put(folder, f"{name}.jsonl", f"{json.dumps(line)}\n")
    return f"kind: audit_log, path: ./HERE, table: {json.dumps(f'public.{NAME}', ensure_ascii=False)}"


def debezium(folder: Path) -> str:
    for number, name in enumerate(FILES):
        place = {"schema": "public", "table": NAME, "lsn": number, "sequence": f'["{number}","{number}"]'}
        payload = {"before": None, "after": row(number), "source": place, "op": "c"}
        put(folder, f"{name}.jsonl", f"{json.dumps(payload)}\n")
    return f"kind: debezium, path: ./HERE, settle_seconds: 0, table: {json.dumps(f'public.{NAME}', ensure_ascii=False)}"


def postgres(folder: Path) -> str:
    landing = folder / "public.things"
    landing.mkdir(parents=True)
    names = ["id", "ts", *VALUES]
    for number in range(len(FILES)):
        start, end = ((number + place) * 1_000_000 for place in (1, 2))
        own = {OP: "i", POSITION: f"{hex_lsn(start)}-{1:010d}", COMMITTED_AT: TS, XID: "1", UNCHANGED: None}
        values = {name: f"{value}" for name, value in row(number).items()}
        schema = schema_of(
            names, [(23, -1), (1114, -1), *[(25, -1)] * len(VALUES)], [0], start=hex_lsn(start), end=hex_lsn(end)
        )
        rows = pa.Table.from_pylist([{**own, f"{OLD}id": None, **values}], schema)
        pq.write_table(rows, landing / range_name(hex_lsn(start), end, 1))
    return "kind: postgres, url: postgresql://nobody, table: things, landing: ./HERE"


def snapshot(folder: Path) -> str:
    put(folder / "in", "2026-01-01.csv", csv_text(*map(row, range(len(FILES)))))
    return "kind: snapshot, path: ./HERE/in, landing: ./HERE/copies, settle_seconds: 0"


def sharded(folder: Path) -> str:
    for number, name in enumerate(FILES):
        put(folder, f"{name}.csv", csv_text({"op": "I", **row(number)}))
    shard = json.dumps(NAME, ensure_ascii=False)
    return f"kind: sharded, shards: {{{shard}: {{kind: dms, path: ./HERE, header: true, settle_seconds: 0}}}}"


def handover(folder: Path) -> str:
    put(folder / "in", "2025-12-31.csv", csv_text(row(0)))
    for number, name in enumerate(FILES[1:], 1):
        put(folder / "changes", f"{name}.csv", csv_text({"op": "I", **row(number)}))
    changes = "kind: dms, path: ./HERE/changes, header: true, settle_seconds: 0"
    dumps = "{kind: snapshot, path: ./HERE/in, settle_seconds: 0}"
    return f"kind: handover, snapshots: {dumps}, landing: ./HERE/copies, changes: {{{changes}}}, time: ts"


KINDS: Final = (dms, dms_parquet, audit_log, debezium, postgres, snapshot, sharded, handover)


def declared() -> str:
    """Declare the columns of a table, without the last names, which are not allowed."""
    shown = ", ".join(f"{{name: {json.dumps(name, ensure_ascii=False)}}}" for name in COLUMNS)
    return f"[{{name: id, type: int}}, {{name: ts, type: timestamp}}, {shown}]"


def test_names_are_data_whatever_is_in_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every column and value is unchanged in the marts, and every file is in its folder."""
    del spark  # only there so that Java runs
    monkeypatch.setattr(PostgresCapture, "land", lambda *_: Landed())
    folder = tmp_path / "a" / "b" / "c" / "d" / "project"
    tables = []
    for kind in KINDS:
        name = kind.__name__
        source = kind(folder / "landing" / name).replace("HERE", f"landing/{name}")
        keys = "[shard, id]" if kind is sharded else "[id]"
        columns = f"columns: {declared()}" if kind is handover else ""
        tables.append(f"\n  - {{name: {name}, source: {{{source}}}, keys: {keys}, {columns}}}")
    (folder / "frazil.yml").write_text(f"pipeline: p\nlake: {{warehouse: ./lake}}\ntables:{''.join(tables)}\n")
    pipeline = frazil.load(folder)
    frazil.run(pipeline, spark=spark_session(pipeline))

    for kind in KINDS:
        answer = command("query", f"SELECT * FROM marts.{kind.__name__} ORDER BY id::int", f"{folder}", "--json")
        rows = json.loads(answer.stdout)
        assert [int(one["id"]) for one in rows] == [*range(len(FILES))], kind.__name__
        expected = {name: VALUES[name] for name in COLUMNS}
        if kind is not handover:  # its columns are declared
            expected |= {kept: VALUES[name] for name, kept in WORSE.items()}
        assert all({name: one[name] for name in expected} == expected for one in rows), kind.__name__
        if kind is sharded:
            assert {one["shard"] for one in rows} == {NAME}
    checked = command("check", f"{folder}", "--json")
    assert [found for found in json.loads(checked.stdout) if found["ok"] is False] == []
    for asked in (("plan",), ("status",), ("status", "dms"), ("quarantine",), ("test",)):
        assert command(asked[0], *asked[1:], *(["--project"] if asked[1:] else []), f"{folder}").code == 0
    outside = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")} - {"a", "a/b", "a/b/c", "a/b/c/d"}
    assert {path.split("/")[4] for path in outside} == {"project"}
    inside = {path.name for path in folder.iterdir()}
    assert inside == {"frazil.yml", "landing", "lake"}
    assert frazil.run(pipeline, spark=spark_session(pipeline)).steps == 0
