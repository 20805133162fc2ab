"""Topics of a real broker end in the tables that the oracle says, whatever happens on the way.

ONCE, ORDER and NOTHING-LOST through redelivery, restarts of the broker, and runs that are killed.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

import frazil
from frazil.serve.query.query import query
from frazil.sources.capture import Lag
from frazil.sources.debezium.source import LostOffsetsError
from frazil.sources.debezium.topic import TopicCapture
from frazil.sources.kinds import captures_of
from frazil.spark.session import spark_session
from frazil.spec import Debezium, Lake, Pipeline, Table
from frazil.testing.changes import COLUMNS, oracle_changes, random_history
from frazil.testing.kafka import Kafka, kafka
from frazil.testing.oracle import current

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from frazil.testing.changes import Record

pytestmark = pytest.mark.server

_PARTITIONS = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with kafka() as started:
        yield started


class Topic:
    """A topic of a table's changes, as Debezium's connector writes it."""

    def __init__(self, broker: Kafka, **settings: str) -> None:
        self.broker, self.name = broker, f"shop.public.t{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
        self.make(**settings)

    def make(self, **settings: str) -> None:
        topic = NewTopic(self.name, num_partitions=_PARTITIONS, replication_factor=1, config=settings)
        self.admin.create_topics([topic])[self.name].result(60)

    def remove(self) -> None:
        self.admin.delete_topics([self.name])[self.name].result(60)

    def alter(self, **settings: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, self.name, set_config=settings)
        self.admin.alter_configs([resource])[resource].result(60)

    def write(self, messages: Sequence[tuple[str, str | None]], **settings: Any) -> None:
        """Write messages with their keys, in order; transactional where ``settings`` say so."""
        producer = Producer({"bootstrap.servers": self.broker.servers, "log_level": 0, "linger.ms": 1, **settings})
        if "transactional.id" in settings:
            producer.init_transactions(60)
            producer.begin_transaction()
        failed: list[object] = []
        for key, value in messages:
            partition = int(json.loads(key)["id"]) % _PARTITIONS
            told = {"on_delivery": lambda error, _: failed.append(error) if error else None}
            producer.produce(self.name, key=key, value=value, partition=partition, **told)
        if producer.flush(120) or failed:
            raise AssertionError(f"not written: {failed[:1]}")
        if "transactional.id" in settings:
            producer.commit_transaction(60)


def messages_of(records: Sequence[Record], start: int = 0) -> list[tuple[str, str | None]]:
    """Write changes as envelopes, each delete with its tombstone."""
    found: list[tuple[str, str | None]] = []
    for place, record in enumerate(records, start=start):
        numbers = {name: None if record[name] is None else int(record[name] or 0) for name in ("id", "qty")}
        image = {**numbers, **{name: record[name] for name in ("ts", "name", "note")}}
        commit, lsn = 1000 + place // 2 * 100, 950 + place // 2 * 100 + place % 2
        source = {"schema": "public", "table": "things", "lsn": lsn, "sequence": f'["{commit}","{lsn}"]'}
        is_delete = record["op"] == "D"
        sides = {"before": image, "after": None} if is_delete else {"before": None, "after": image}
        key = json.dumps({"id": numbers["id"]})
        found.append((key, json.dumps({**sides, "source": source, "op": "d" if is_delete else "u"})))
        if is_delete:
            found.append((key, None))
    return found


def declared(folder: Path, topic: Topic) -> Path:
    columns = ", ".join(f"{{name: {name}, type: {kind}}}" for name, kind in COLUMNS.items())
    folder.mkdir(exist_ok=True)
    (folder / "frazil.yml").write_text(
        f"""\
pipeline: topics
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: debezium, servers: "{topic.broker.servers}", topic: {topic.name}, landing: ./landing}}
    keys: [id]
    columns: [{columns}]
""",
        encoding="utf-8",
    )
    return folder


def run(folder: Path) -> None:
    pipeline = frazil.load(folder)
    frazil.run(pipeline, spark=spark_session(pipeline))


def rows(folder: Path) -> list[str]:
    found = query(frazil.load(folder), f"SELECT {', '.join(COLUMNS)} FROM marts.things")
    return sorted(repr(list(row)) for row in found.rows)


def expected(records: Sequence[Record]) -> list[str]:
    changes = oracle_changes({"000001.csv": records})
    # The order is that of the log alone: there is no sequence_by.
    ordered = [change.__class__(**{**_fields(change), "sequence": ()}) for change in changes]
    return sorted(repr([row[name] for name in COLUMNS]) for row in current(ordered, [*COLUMNS]))


def _fields(change: Any) -> dict[str, Any]:
    return {name: getattr(change, name) for name in change.__dataclass_fields__}


def capture(folder: Path, topic: Topic) -> TopicCapture:
    source = Debezium(servers=topic.broker.servers, topic=topic.name, landing="./landing")
    table = Table(name="things", source=source, keys=("id",))
    pipeline = Pipeline(pipeline="topics", lake=Lake(warehouse="lake"), tables=(table,)).at(folder)
    [found] = captures_of(pipeline, ["things"])
    assert isinstance(found, TopicCapture)
    return found


def landed(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.rglob("*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


def silent(_: str) -> None:
    """Ignore the call."""


def test_a_topic_lands_once_in_files_that_follow_one_another(broker: Kafka, tmp_path: Path) -> None:
    topic = Topic(broker)
    topic.write(messages_of(random_history(1, 40)))
    small = TopicCapture(capture(tmp_path, topic).of, file_messages=7)

    first, again = small.land(tmp_path, silent), small.land(tmp_path, silent)
    topic.write(messages_of(random_history(2, 20), start=40))
    behind, later, level = small.behind(tmp_path), small.land(tmp_path, silent), small.behind(tmp_path)

    places = [(line["partition"], line["offset"]) for line in landed(tmp_path)]
    assert len(places) == len({*places}) == first.records + later.records
    assert (again.files, again.records) == (0, 0)
    assert behind.behind_seconds
    assert level == Lag(behind_seconds=0)


def test_only_committed_transactions_land(broker: Kafka, tmp_path: Path) -> None:
    topic, mine = Topic(broker), {"transactional.id": uuid.uuid4().hex}
    topic.write(messages_of(random_history(1, 10)), **mine)
    slow = {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": 600_000, "log_level": 0}
    aborting = Producer({"bootstrap.servers": broker.servers, **slow})
    aborting.init_transactions(60)
    aborting.begin_transaction()
    aborting.produce(topic.name, key='{"id": 1}', value="never", partition=1)
    aborting.flush(60)

    while_open = capture(tmp_path, topic).land(tmp_path, silent)
    aborting.abort_transaction(60)
    topic.write(messages_of(random_history(2, 10), start=10), **mine)
    after = capture(tmp_path, topic).land(tmp_path, silent)

    assert [line for line in landed(tmp_path) if line["value"] == "never"] == []
    count = len(messages_of(random_history(1, 10))) + len(messages_of(random_history(2, 10)))
    assert while_open.records + after.records == count


def test_a_tombstone_that_begins_a_file_says_what_it_follows(broker: Kafka, tmp_path: Path) -> None:
    topic = Topic(broker)
    topic.write([('{"id": 1}', '{"n": 1}'), ('{"id": 1}', None), ('{"id": 1}', None)])
    small = TopicCapture(capture(tmp_path, topic).of, file_messages=1)

    small.land(tmp_path, silent)

    assert [line.get("follows") for line in landed(tmp_path)] == [None, '{"n": 1}', '{"n": 1}']


def test_expired_offsets_are_an_error_with_the_way_out(broker: Kafka, tmp_path: Path) -> None:
    topic = Topic(broker, **{"segment.bytes": "1048576"})
    topic.write([('{"id": 1}', "1")])
    mine = capture(tmp_path, topic)
    mine.land(tmp_path, silent)
    topic.write([('{"id": 1}', "2"), ('{"id": 1}', "3")])
    topic.admin.delete_records([TopicPartition(topic.name, 1, 2)])
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            mine.land(tmp_path, silent)
        except LostOffsetsError as error:
            lost = error
            break
    else:
        raise AssertionError("nothing was told")

    assert lost.exit_code == 8
    assert "offsets 1 to 1 were deleted before they were landed" in lost.message
    Path((lost.hint or "").split("'")[1]).touch()
    assert mine.land(tmp_path, silent).records == 1


def test_a_recreated_topic_is_detected(broker: Kafka, tmp_path: Path) -> None:
    topic = Topic(broker)
    topic.write([('{"id": 1}', "1")])
    mine = capture(tmp_path, topic)
    mine.land(tmp_path, silent)
    topic.remove()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with suppress(Exception):
            topic.make()
            break
    topic.write([('{"id": 1}', "1"), ('{"id": 1}', "2")])

    with pytest.raises(LostOffsetsError, match="was deleted and created again") as told:
        mine.land(tmp_path, silent)

    Path((told.value.hint or "").split("'")[1]).mkdir()
    assert mine.land(tmp_path, silent).records == 2


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.laws) for seed in range(2, 21))])
def test_a_topic_ends_in_the_rows_of_the_oracle(seed: int, broker: Kafka, spark: SparkSession, tmp_path: Path) -> None:
    """With messages sent again, a broker that crashes, and runs that are killed while they capture."""
    del spark
    rng, topic, folder = Random(seed), Topic(broker), tmp_path / "world"
    records = random_history(seed, 60, keys=9)
    sent: list[tuple[str, str | None]] = []
    declared(folder, topic)
    for start in range(0, 60, 20):
        some = messages_of(records[start : start + 20], start=start)
        again = sent[rng.randrange(len(sent)) :] if sent else []
        topic.write([*again, *some])
        sent += some
        if start == 20:
            killed_capture(folder, rng.random() / 2)
            broker.kill()
            broker.start()
        if rng.random() < 0.7:
            run(folder)
    run(folder)
    run(folder)

    assert rows(folder) == expected(records)


def killed_capture(folder: Path, seconds: float) -> None:
    """Capture in a process of its own, and kill it some time after it began."""
    process = subprocess.Popen(
        [sys.executable, "-m", "frazil", "capture"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not (folder / "landing").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
