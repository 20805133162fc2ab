"""The dry run of an erase names the landing files that the erase rewrites and removes, and those that stay."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil import api
from frazil.cli.commands.erase import show_erase
from frazil.erase.report import EraseProof, EraseReport
from frazil.sources.audit_log.source import Bookmark, bookmark_path
from frazil.sources.postgres.landed.files import schema_of
from frazil.spark.session import spark_session
from frazil.spec import AuditLog

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: people
    source: {kind: postgres, url: "postgresql://nowhere", table: public.people, landing: ./replicated}
    keys: [email]
    marts: [{kind: current}]
  - name: orders
    source: {kind: audit_log, url: "postgresql://nowhere", log: public.log, table: public.orders, landing: ./logged}
    keys: [email]
    columns: [{name: email}]
    marts: [{kind: current}]
  - name: returns
    source: {kind: audit_log, url: "postgresql://nowhere", log: public.log, table: public.returns, landing: ./logged}
    keys: [email]
    columns: [{name: email}]
    marts: [{kind: current}]
  - name: visits
    source: {kind: debezium, servers: nowhere, topic: visits, form: flat, landing: ./topics}
    keys: [email]
    columns: [{name: email}]
    marts: [{kind: current}]
  - name: visitors
    source: {kind: debezium, servers: nowhere, topic: visits, form: flat, landing: ./topics}
    keys: [email]
    columns: [{name: email}]
    marts: [{kind: current}]
  - name: files
    source: {kind: debezium, path: ./own, form: flat, op: null}
    keys: [email]
    columns: [{name: email}]
    marts: [{kind: current}]
"""
ANN, BOB = "ann@example.org", "bob@example.org"


def land_replicated(folder: Path, number: int, *, rows: int = 2) -> Path:
    """Land a file of replication with a record of each."""
    schema = schema_of(("email",), [(25, -1)], [0], start="1")
    values: dict[str, Any] = {name: [None] * rows for name in schema.names}
    values["__op"] = ["r"] * rows
    values["__position"] = [f"{number:016}-{row:010}" for row in range(rows)]
    values["email"] = [ANN, BOB, ANN][:rows]
    path = folder / "replicated" / "public.people" / "load-0000000000000001" / f"{number:06}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(values, schema=schema), path)
    return path


def land_logged(folder: Path, table: str, turn: int) -> None:
    """Land a file of an audit log with a record of each."""
    records = [(f"{turn}{number}", "I", f"2026-01-0{turn} 00:00:00", "public", table) for number in (1, 2)]
    rows = [(*record, json.dumps({"email": email})) for record, email in zip(records, (ANN, BOB), strict=True)]
    names = ("audit_event_id", "audit_operation", "audit_timestamp", "tbl_schema", "tbl_name", "raw_data")
    path = folder / "logged" / f"public.{table}" / f"{turn:09}-{turn:020}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {name: [row[number] for row in rows] for number, name in enumerate(names)}
    pq.write_table(pa.table(columns), path)


def land_topic(folder: Path, first: int) -> None:
    """Land a file of a topic with a message of each."""
    path = folder / "topics" / "visits" / "topic-1" / "000000" / f"{first:020}-{first + 2:020}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, Any]] = [
        {"topic": "visits", "partition": 0, "offset": first + number, "key": None, "value": value, "headers": []}
        for number, value in enumerate(json.dumps({"email": email, "__op": "c"}) for email in (ANN, BOB))
    ]
    path.write_bytes(gzip.compress("".join(f"{json.dumps(line)}\n" for line in lines).encode()))


def land(folder: Path) -> Pipeline:
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    first, *_ = (land_replicated(folder, number) for number in (1, 2, 3))
    first.with_name("000004.parquet").write_bytes(first.read_bytes())
    for turn in (1, 2):
        land_logged(folder, "orders", turn)
    land_logged(folder, "returns", 1)
    spec = AuditLog(url="x", log="public.log", landing="./logged", table="public.orders")
    # The second turn has not ended.
    Bookmark(number=1).write(bookmark_path(folder / "logged", spec))
    for offset in (0, 2):
        land_topic(folder, offset)
    (folder / "own").mkdir()
    (folder / "own" / "1.jsonl").write_text(json.dumps({"email": BOB}) + "\n", encoding="utf-8")
    return frazil.load(folder)


def run(pipeline: Pipeline, spark: SparkSession, *tables: str) -> None:
    """Take what is landed; no server is asked for more."""
    frazil.run(pipeline, plan=api.plan(pipeline, select=tables), spark=spark)


def erased_as_foreseen(pipeline: Pipeline, spark: SparkSession, table: str) -> EraseReport:
    """Erase a subject, and hold what was done against what the dry run said."""
    before = api.erase_preview(pipeline, table, keys=[BOB], spark=spark)
    assert before.proof is None
    assert all((pipeline.folder / path).exists() for path in (*before.rewritten, *before.removed, *before.files))

    report = api.erase(pipeline, table, keys=[BOB], spark=spark)

    names = ("subjects", "rewritten", "removed", "files", "unseen", "resumed")
    assert [getattr(before, name) for name in names] == [getattr(report, name) for name in names]
    assert [(layer.table, layer.rows) for layer in before.layers] == [(one.table, one.rows) for one in report.layers]
    assert [path for path in report.removed if (pipeline.folder / path).exists()] == []
    for path in report.rewritten:
        assert pq.read_table(pipeline.folder / path)["email"].to_pylist() == [ANN, None]
    return report


@pytest.mark.spark
@pytest.mark.laws
def test_a_dry_run_says_which_landing_files_the_erase_rewrites_and_removes(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    pipeline = land(tmp_path)
    session = spark_session(pipeline)
    run(pipeline, session, "people", "orders", "returns", "visits", "files")
    # Somebody wrote it again: what is in it now, bronze has never held.
    land_replicated(tmp_path, 3, rows=3)

    people = erased_as_foreseen(pipeline, session, "people")
    place = "replicated/public.people/load-0000000000000001"
    assert people.rewritten == tuple(f"{place}/{number:06}.parquet" for number in (1, 2, 4))
    assert (people.removed, people.files) == ((), (f"{place}/000003.parquet",))

    # Another table of the log has files of its own; the second turn has not ended.
    orders = erased_as_foreseen(pipeline, session, "orders")
    first, second = (f"logged/public.orders/{turn:09}-{turn:020}.parquet" for turn in (1, 2))
    assert (orders.rewritten, orders.removed, orders.files) == ((), (first,), (second,))

    # Another table that is made of the topic has not taken it; then all but the newest file can go.
    first, second = (f"topics/visits/topic-1/000000/{at:020}-{at + 2:020}.jsonl.gz" for at in (0, 2))
    visits = api.erase_preview(pipeline, "visits", keys=[BOB], spark=session)
    assert (visits.removed, visits.files) == ((), (first, second))
    run(pipeline, session, "visitors")
    visits = erased_as_foreseen(pipeline, session, "visits")
    assert (visits.rewritten, visits.removed, visits.files) == ((), (first,), (second,))

    files = erased_as_foreseen(pipeline, session, "files")
    assert (files.rewritten, files.removed, files.files) == ((), (), ("own/1.jsonl",))


def test_people_read_which_landing_files_go_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    what: dict[str, Any] = {
        "table": "t",
        "subjects": 1,
        "layers": (),
        "rewritten": ("a.parquet",),
        "removed": ("b.gz", "c.gz"),
    }
    proof = EraseProof(rows=7, files=3, bytes_searched=True)

    show_erase(EraseReport(**what, files=("d.csv",)))
    show_erase(EraseReport(**what, proof=proof))

    said = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith(" ")]
    assert said == [
        "t: 1 key to erase",
        "1 landing file of Frazil's own to be rewritten without these keys:",
        "2 landing files of Frazil's own to be removed:",
        "1 file at the source holds records of these keys, and stays as it is:",
        "t: 1 key erased",
        "1 landing file of Frazil's own rewritten without these keys:",
        "2 landing files of Frazil's own removed:",
        "searched 7 rows and 3 files: no key is left",
    ]
