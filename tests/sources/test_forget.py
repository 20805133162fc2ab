"""Landing files that Frazil wrote are removed by an erase, and the capture goes on where it stood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

import frazil
from frazil import api
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.sources.audit_log.capture import LogCapture
from frazil.sources.audit_log.source import Bookmark, bookmark_path
from frazil.sources.capture import ForgetsFiles, try_lock
from frazil.sources.debezium.topic import TopicCapture
from frazil.spark.session import spark_session
from frazil.spec import AuditLog, Debezium, Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LOG = """
CREATE TABLE audit_log(
    audit_event_id serial PRIMARY KEY, audit_operation text, audit_timestamp timestamp DEFAULT now(),
    tbl_schema text DEFAULT 'public', tbl_name text DEFAULT 'orders', raw_data json)
"""
DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: audit_log, url: "${env:TEST_DB}", log: public.audit_log, table: public.orders, landing: ./landing}
    keys: [id]
    columns: [{name: id, type: bigint}, {name: email}]
    marts: [{kind: current}]
"""


def empty(folder: Path, *names: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x")
    return [folder / name for name in names]


def test_files_of_an_audit_log_go_when_their_turn_has_ended(tmp_path: Path) -> None:
    source = AuditLog(url="postgresql://x", log="public.log", landing="landing", table="public.orders")
    capture = LogCapture(("orders",), (source,))
    root = tmp_path / "landing"
    files = empty(root / "public.orders", *(f"{turn:09}-{turn:020}.parquet" for turn in (1, 2, 3)))
    Bookmark(number=2).write(bookmark_path(root, source))

    (strange,) = empty(tmp_path / "snapshots", f"{1:09}-{1:020}.parquet")

    assert isinstance(capture, ForgetsFiles)
    assert capture.forgettable(tmp_path, [*files, strange]) == dict.fromkeys(files[:2], ("orders",))
    with try_lock(root / ".public.log.lock"):
        assert capture.forget(tmp_path, files) == []
    assert capture.forget(tmp_path, files) == files[:2]
    assert capture.forget(tmp_path, files) == []
    assert [file.exists() for file in files] == [False, False, True]


def test_files_of_a_topic_leave_their_offsets_and_the_newest_of_a_partition_stays(tmp_path: Path) -> None:
    source = Debezium(servers="x", topic="t", landing="./landing")
    capture = TopicCapture((Table(name="orders", source=source, keys=("id",)),))
    root = tmp_path / "landing" / "t"
    ranges = [(0, 5), (5, 9), (9, 12)]
    files = empty(root / "topic-1" / "000000", *(f"{first:020}-{end:020}.jsonl.gz" for first, end in ranges))

    (strange,) = empty(tmp_path / "own", f"{0:020}-{5:020}.jsonl.gz")

    asked = [*files, strange, tmp_path / "other.jsonl.gz"]
    assert capture.forgettable(tmp_path, asked) == dict.fromkeys(files[:2], ("orders",))
    assert capture.forget(tmp_path, asked) == files[:2]
    left = {path.name: path.stat().st_size for path in files[0].parent.iterdir()}
    assert left == {files[0].stem: 0, files[1].stem: 0, files[2].name: 1}
    assert capture.forget(tmp_path, files) == []


@pytest.mark.spark
def test_an_erase_removes_what_was_landed_of_an_audit_log_and_the_next_run_goes_on(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline = frazil.load(tmp_path)

    def add(*rows: str) -> None:
        with psycopg.connect(database, autocommit=True) as session:
            for row in rows:
                session.execute("INSERT INTO audit_log(audit_operation, raw_data) VALUES ('I', %s)", [row])
        frazil.run(pipeline, spark=spark_session(pipeline))

    with psycopg.connect(database, autocommit=True) as session:
        session.execute(LOG)
    add('{"id": 1, "email": "ann@example.org"}', '{"id": 2, "email": "bob@example.org"}')
    add('{"id": 3, "email": "cyd@example.org"}')

    report = api.erase(pipeline, "orders", keys=["2"], spark=spark_session(pipeline))

    assert len(report.removed) == 1
    assert report.files == ()
    left = [path for path in tmp_path.rglob("*") if path.is_file() and b"bob@example.org" in path.read_bytes()]
    assert left == []
    add('{"id": 4, "email": "dan@example.org"}', '{"id": 2, "email": "bob@example.org"}')
    assert query(pipeline, "SELECT id FROM marts.orders ORDER BY id").rows == [(1,), (3,), (4,)]
    assert [finding for finding in check(pipeline) if finding.ok is False] == []
