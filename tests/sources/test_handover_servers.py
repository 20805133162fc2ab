"""HANDOVER on real servers: a table of PostgreSQL is copied, and its changes come from a topic of Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.sources.test_kafka import Topic, messages_of

import frazil
from frazil import api
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.spark.session import spark_session
from frazil.testing.kafka import kafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline
    from frazil.testing.changes import Record
    from frazil.testing.kafka import Kafka

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source:
      kind: handover
      snapshots: {{kind: snapshot, url: "${{env:TEST_DB}}", table: public.things, every_minutes: {minutes}}}
      changes: {{kind: debezium, servers: "{servers}", topic: {topic}, landing: ./landing}}
      time: ts
      landing: ./copies
      max_delete_fraction: 1
    keys: [id]
    columns:
      [{{name: id, type: int}}, {{name: ts, type: timestamp}}, {{name: name}}, {{name: qty, type: int}}, {{name: note}}]
    marts: [{{kind: current}}, {{kind: history}}]
"""
BEFORE, AFTER = "2026-01-01 00:00:00.000000", "2099-01-01 00:00:00.000000"


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with kafka() as started:
        yield started


def change(op: str, key: int, name: str, ts: str) -> Record:
    return {"op": op, "id": f"{key}", "ts": ts, "name": name, "qty": "1", "note": None}


def rows(pipeline: Pipeline) -> list[Any]:
    return query(pipeline, "SELECT id, name FROM marts.things ORDER BY id").rows


@pytest.mark.spark
def test_copies_of_a_table_and_a_topic_of_its_changes_meet(
    broker: Kafka, database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    topic = Topic(broker)
    # The topic tells of two rows from before the copy: one changed since, of one the delete was lost.
    older = messages_of([change("I", 1, "old", BEFORE), change("I", 9, "gone", BEFORE)])
    topic.write(older)

    def run(minutes: float = 600) -> Pipeline:
        said = DECLARATION.format(minutes=minutes, servers=broker.servers, topic=topic.name)
        (tmp_path / "frazil.yml").write_text(said)
        pipeline = frazil.load(tmp_path)
        frazil.run(pipeline, spark=spark_session(pipeline))
        return pipeline

    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE things (id int PRIMARY KEY, ts timestamp, name text, qty int, note text)")
        session.execute(f"INSERT INTO things SELECT g, '{BEFORE}', 'row ' || g, 1, NULL FROM generate_series(1, 4) g")
        pipeline = run()
        assert rows(pipeline) == [(1, "row 1"), (2, "row 2"), (3, "row 3"), (4, "row 4")]
        assert api.check_source(pipeline)[0].ok is True

        # Newer changes, and the older ones once more.
        newer = messages_of([change("U", 2, "new", AFTER), change("D", 3, "", AFTER), change("I", 10, "ten", AFTER)], 2)
        topic.write([*newer, *older])
        run()
        assert rows(pipeline) == [(1, "row 1"), (2, "new"), (4, "row 4"), (10, "ten")]
        assert {one.key: one.why for one in api.check_source(pipeline)[0].differences} == {
            "id=2": "unknown",
            "id=3": "unknown",
            "id=10": "unknown",
        }

        # A copy that is taken later repairs what the topic never told; what is newer than it stands.
        session.execute("UPDATE things SET name = 'told by nobody' WHERE id = 4")
        session.execute("DELETE FROM things WHERE id = 1")
        run(minutes=0.0001)
    assert rows(pipeline) == [(2, "new"), (4, "told by nobody"), (10, "ten")]
    assert len([*(tmp_path / "copies" / "things").glob("*.parquet")]) == 2
    assert [f"{finding}" for finding in check(pipeline) if finding.ok is False] == []
