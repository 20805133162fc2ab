"""ORDER across servers: a source that moves is followed by the offsets of its topic, or the run stops."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.sources.base import NewFile
from frazil.sources.debezium.record import Records
from frazil.sources.eras import LAST, UnknownOrderError, follow
from frazil.sources.trail import Trail
from frazil.spark.session import spark_session
from frazil.spec import Debezium, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

TABLE = Table(name="orders", source=Debezium(path=("landing",)), keys=("id",))
SECOND = 1_000
NO_COMMIT = {"sequence": None}
PARTITIONS = 2


@dataclass(slots=True)
class Server:
    """A database that writes changes, as Debezium names their places."""

    connector: str
    number: int
    file: int
    at: int = 100

    def change(self, time: int) -> dict[str, Any]:
        self.at += 10
        told = {"connector": self.connector, "ts_ms": time, "snapshot": "false"}
        match self.connector:
            case "mysql":
                gtid = f"{self.number:08}-0000-0000-0000-000000000000:{self.at}"
                return told | {"server_id": self.number, "gtid": gtid, "file": f"bin.{self.file:06}", "pos": self.at}
            case "postgresql":
                lsn = self.file * 1_000_000 + self.at
                return told | {"lsn": lsn, "sequence": f'["{lsn - 5}","{lsn}"]'}
            case "sqlserver":
                text = f"{self.file:08x}:{self.at:08x}:0001"
                return told | {"commit_lsn": text, "change_lsn": text, "event_serial_no": 1}
            case _:
                scn = self.file * 1_000_000 + self.at
                return told | {"scn": f"{scn}", "commit_scn": f"{scn + 3}"}


@dataclass(slots=True)
class Moving:
    """A history of changes whose source moves, and what a topic has of it: some changes are delivered twice.

    Attributes:
        lines: those of the topic, in the order of the offsets.
        truth: (key, number of the change) of each line.
    """

    lines: list[dict[str, Any]] = field(default_factory=list)
    truth: list[tuple[int, int]] = field(default_factory=list)


def moving(seed: int, *, connector: str, size: int = 60) -> Moving:
    random, found = Random(seed), Moving()
    servers = [Server(connector, 1, random.randrange(5, 50))]
    here, time, offsets = servers[0], 1_700_000_000_000, [0] * PARTITIONS
    since: list[tuple[int, int, dict[str, Any]]] = []

    def send(key: int, number: int, source: dict[str, Any]) -> None:
        partition = key % PARTITIONS
        value = {"op": "u", "before": None, "after": {"id": key, "n": number}, "source": source}
        line = {"topic": "shop", "partition": partition, "offset": offsets[partition], "key": {"id": key}}
        offsets[partition] += random.choice((1, 1, 3))
        found.lines.append({**line, "value": value})
        found.truth.append((key, number))

    for number in range(size):
        time += random.randrange(1, 60) * SECOND
        match random.randrange(12):
            case 0:  # failover
                here, since = Server(connector, len(servers) + 1, random.randrange(1, 50)), []
                servers.append(here)
            case 1:  # failback
                here, since = random.choice(servers), []
            case 2:  # RESET MASTER, a restore
                here.file, here.at, since = max(here.file - random.randrange(1, 9), 0), 0, []
            case 3:
                here.file += 1
            case 4:  # a connector that died sends its last changes again
                for again in since[-random.randrange(1, 9) :]:
                    send(*again)
            case _:
                pass
        since.append((random.randrange(5), number, here.change(time)))
        send(*since[-1])
    return found


def new_file(name: str, records: Records, lines: Sequence[str]) -> NewFile:
    for line in lines:
        records.fields(line)
    assert records.trail is not None
    return NewFile(
        path=name,
        uri=name,
        name=name,
        size_bytes=1,
        modified_ns=1,
        load=False,
        position=name,
        sha256=name,
        trail=records.trail.all(),
    )


def positions(batches: Sequence[Sequence[dict[str, Any]]], *, stops: bool = True) -> list[str]:
    """Take batches, one file each, as a run does: look into it, follow the moves, read it."""
    kept: Mapping[str, Any] = {}
    found: list[str] = []
    for number, batch in enumerate(batches):
        lines = [*map(json.dumps, batch)]
        file = new_file(f"{number}.jsonl", Records(TABLE, f"{number}.jsonl", trail=Trail()), lines)
        followed = follow("orders", [file], json.loads(json.dumps(kept)), stops=stops)
        kept = followed.kept
        read = Records(TABLE, file.name, dict(followed.files[0].turns))
        found += [(read.fields(line) or {})["__position"] or "" for line in lines]
    return found


def split(lines: Sequence[dict[str, Any]], random: Random) -> list[Sequence[dict[str, Any]]]:
    cuts = sorted(random.sample(range(1, len(lines)), random.randrange(1, 8)))
    return [lines[first:last] for first, last in zip([0, *cuts], [*cuts, len(lines)], strict=True)]


def is_in_order(truth: Sequence[tuple[int, int]], places: Sequence[str]) -> bool:
    """Say whether the changes of each key are in the order in which they happened."""
    ranked = sorted(zip(places, truth, strict=True))
    numbers = {key: [number for _, (one, number) in ranked if one == key] for key, _ in truth}
    return all(found == sorted(found) for found in numbers.values())


CONNECTORS = ["mysql", "postgresql", "sqlserver", "oracle"]


@pytest.mark.long
@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("seed", range(25))
def test_changes_of_moving_servers_keep_their_order_in_any_split(seed: int, connector: str) -> None:
    """ORDER, CONVERGE: failovers and failbacks, RESET MASTER, restores, and changes that are delivered twice."""
    drawn = moving(seed, connector=connector)

    whole = positions([drawn.lines])
    parts = positions(split(drawn.lines, Random(seed)))

    assert is_in_order(drawn.truth, whole)
    assert parts == whole


@pytest.mark.parametrize("connector", CONNECTORS)
def test_without_eras_moving_servers_are_out_of_order(connector: str) -> None:
    """A broken draw fails: places of different servers are not compared."""
    wrong = 0
    for seed in range(25):
        drawn = moving(seed, connector=connector)
        read = Records(TABLE, "1.jsonl")
        places = [(read.fields(json.dumps(line)) or {})["__position"] or "" for line in drawn.lines]
        wrong += not is_in_order(drawn.truth, places)

    assert wrong > 12


def change(offset: int | None, lsn: int, time: int, **more: Any) -> dict[str, Any]:
    source = {"lsn": lsn, "ts_ms": time, "sequence": f'["{lsn - 1}","{lsn}"]', **more.pop("source", {})}
    value = {"op": "c", "after": {"id": 1}, "source": source}
    return {"value": value} if offset is None else {"value": value, "partition": 0, "offset": offset, **more}


def test_places_that_go_back_without_a_time_are_ordered_by_their_offsets() -> None:
    lines = [change(number, lsn, 1, source={"ts_ms": None}) for number, lsn in enumerate((500, 400, 410, 300))]

    places = positions([lines[:2], lines[2:]])

    assert places == sorted(places)


def test_files_of_a_topic_may_come_in_any_order() -> None:
    """CONVERGE, with and without times: places of one server are the same."""
    for told in ({}, {"ts_ms": None}):
        lines = [change(number, 500 + number, number, source=told) for number in range(9)]
        newer, older, whole = (positions(batches) for batches in ([lines[5:], lines[:7]], [lines[:7]], [lines]))

        assert sorted({*newer}) == whole
        assert older == whole[:7]


def test_places_of_one_server_are_as_they_were() -> None:
    """Lakes that are there keep their positions."""
    [first, again] = positions([[change(0, 500, 1), change(1, 400, 1)]])

    assert first == f"{499:020}/1/{500:020}/000000/{0:020}"
    assert again == f"{399:020}/1/{400:020}/000000/{1:020}"


def test_a_new_servers_snapshot_is_ordered_after_the_old_one() -> None:
    """HANDOVER."""
    reads = [
        change(number, 40, 900 + number, source={"snapshot": told}) for number, told in ((2, "first"), (3, "last"))
    ]
    old, late, first, last, next_ = positions([[change(0, 500, 1), change(1, 510, 2)], [*reads, change(4, 41, 950)]])

    assert old < late < first < last < next_
    assert first.startswith("~0001/")


@pytest.mark.parametrize(
    "batches",
    [
        [[change(None, 500, 1)], [change(None, 400, 2)]],
        [[change(None, 500, 1), change(None, 400, 2)]],
        [[change(0, 500, 1, topic="a")], [change(0, 400, 2, topic="b")]],
        [[change(5, 400, 2)], [change(3, 500, 1)]],
        [[change(5, 500, 1), change(6, 400, 2)], [change(0, 600, 3)]],
        [[change(None, 500, 1, source=NO_COMMIT)], [change(None, 400, 2, source=NO_COMMIT)]],
    ],
    ids=[
        "files",
        "one file",
        "another topic",
        "an older server later",
        "a topic made again",
        "records without commits",
    ],
)
def test_a_move_that_nothing_orders_stops_the_run(batches: list[list[dict[str, Any]]]) -> None:
    with pytest.raises(UnknownOrderError, match="moved to another server") as stopped:
        positions(batches)

    assert (stopped.value.code, stopped.value.exit_code) == ("FZ706", 8)
    assert "frazil drop --select orders" in str(stopped.value.hint)
    assert len(positions(batches, stops=False)) == sum(map(len, batches))


def test_positions_that_go_back_by_themselves_are_not_a_move() -> None:
    """Late files, changes that are delivered twice, transactions side by side, and incremental snapshots."""
    late = [[change(None, 500, 2)], [change(None, 400, 1)], [change(None, 500, 2)]]
    beside = [[change(None, lsn, lsn // 100, source=NO_COMMIT) for lsn in (500, 400, 510)]]
    beside[0][1]["value"]["source"]["ts_ms"] = 9
    reads = [[change(0, 500, 1), change(1, 400, 2, source={"snapshot": "incremental"}), change(2, 501, 3)]]

    found = [place for batches in (late, beside, reads) for place in positions(batches)]

    assert [place for place in found if place.startswith("~")] == []


def test_servers_that_share_a_topic_are_ordered_by_its_offsets_at_last() -> None:
    turn = [change(number, 500 if number % 2 else 400, number) for number in range(4 * LAST)]

    places = positions([turn[:50], turn[50:]])

    assert places == sorted(places)
    assert places[-1] == f"~{LAST:04}/000000/{4 * LAST - 1:020}"


@pytest.mark.long
def test_a_moved_source_gives_the_same_tables_by_run_and_by_rebuild(spark: SparkSession, tmp_path: Path) -> None:
    """ORDER, CONVERGE on a lake: batches over failovers, and silver and marts made of bronze again."""
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(
        """
pipeline: moving
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: debezium, path: ./landing, settle_seconds: 0}
    keys: [id]
    columns: [{name: id, type: int}, {name: n, type: int}]
    marts: [{kind: current}, {kind: history}]
"""
    )
    pipeline, drawn = frazil.load(tmp_path), moving(3, connector="mysql")
    session = spark_session(pipeline)
    told: list[str] = []

    for number, batch in enumerate(split(drawn.lines, Random(1))[:4]):
        (tmp_path / "landing" / f"{number}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in batch))
        told += frazil.run(pipeline, spark=session).tables[0].warnings
    read = drawn.truth[: session.table("lake.bronze.orders").where("_cdc_kind = 'record'").count()]
    taken = {key: max(number for one, number in read if one == key) for key, _ in read}
    run = {row["id"]: row["n"] for row in session.table("lake.marts.orders").collect()}
    frazil.run(pipeline, spark=session, rebuild=True)

    assert run == taken
    assert {row["id"]: row["n"] for row in session.table("lake.marts.orders").collect()} == taken
    assert "moved to another server" in told[0]
    assert "frazil check --against DUMP finds them" in told[0]  # no table of the database to compare with
