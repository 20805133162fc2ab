"""HANDOVER of Debezium: rows that were deleted while no log was read are gone when a new snapshot has ended."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.failing import run_fails_with
from tests.properties.strategies import STRATEGIES, go_by
from tests.sources.test_debezium import SOURCE, envelope, records
from tests.sources.topics import COLUMNS, Topic, changes_of, split

import frazil
from frazil import api
from frazil.failpoints import FailpointReached
from frazil.plan.policy import DEFAULT_POLICY
from frazil.runner.options import RunOptions
from frazil.runner.report import RunFailedError
from frazil.spark.session import spark_session
from frazil.testing.oracle import current, history, soft

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.errors import FrazilError
    from frazil.runner.report import RunReport

TABLE: Final = """
  - name: {name}
    source: {{kind: debezium, path: ./landing/{name}, settle_seconds: 0{more}}}
    keys: [id]
    columns: [{{name: id, type: int}}, {{name: n, type: int}}]
    marts:
      - {{kind: current}}
      - {{kind: current, deletes: soft, name: {name}_soft}}
      - {{kind: history, name: {name}_history}}
      - {{kind: history, deletes: mark, name: {name}_mark}}"""


@pytest.mark.parametrize(
    ("marker", "ends"),
    [("first", False), ("true", False), ("last_in_data_collection", True), ("last", True), ("incremental", False)],
)
def test_the_last_read_ends_a_snapshot(marker: str, ends: bool) -> None:  # noqa: FBT001 - drawn
    source = {**SOURCE, "snapshot": marker, "sequence": '[null,"120"]'}
    flat = {"id": 1, "__op": "r", "__lsn": 120, "__source_ts_ms": 1, "__snapshot": marker}
    told = [
        records().fields(json.dumps(envelope("r", after={"id": 1}, source=source))),
        records(form="flat").fields(json.dumps(flat)),
    ]

    assert [(one or {}).get("__snapshot_end") for one in told] == ["true" if ends else None] * 2


@pytest.mark.parametrize("seed", range(50))
def test_the_oracle_says_what_the_database_holds(seed: int) -> None:
    """The draw and the oracle judge each other; what a bad read brings has not come."""
    topic = Topic(Random(seed))
    topic.live(60)
    bad = {one.key for one in topic.messages if one.bad}

    held = {row["id"]: row["n"] for row in current(changes_of(topic.messages), COLUMNS)}

    assert {key: n for key, n in held.items() if key not in bad} == {
        key: n for key, n in topic.rows.items() if key not in bad
    }


FIRST: Final = [("r", key, 100, 0, "last" if key == 12 else "true") for key in range(1, 13)]
CHANGES: Final = [("u", 1, 110, 1, "false"), ("d", 2, 111, 2, "false")]
AGAIN: Final = [("r", key, 200, 60, "last" if key == 12 else "true") for key in range(1, 13) if key not in {2, 3}]
"""Key 3 was deleted while nobody read the log; key 1 was changed there."""


def line(op: str, key: int, lsn: int, minute: int, marker: str) -> str:
    row = {"id": key, "n": 0 if lsn == 100 else key}
    at = int(datetime(2026, 1, 1, minute // 60, minute % 60, tzinfo=UTC).timestamp()) * 1000
    source = {"connector": "postgresql", "lsn": lsn, "ts_ms": at, "snapshot": marker}
    before, after = (row, None) if op == "d" else (None, row)
    return f"{json.dumps({'op': op, 'before': before, 'after': after, 'source': source})}\n"


class Shop:
    """One table of files, in a lake of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "landing" / "t").mkdir(parents=True)
        self.declare("")

    def declare(self, more: str) -> None:
        text = f"pipeline: shop\nlake: {{warehouse: ./lake}}\ntables:{TABLE.format(name='t', more=more)}\n"
        (self.folder / "frazil.yml").write_text(text)

    def land(self, name: str, events: Iterable[tuple[str, int, int, int, str]]) -> None:
        (self.folder / "landing" / "t" / f"{name}.jsonl").write_text("".join(line(*event) for event in events))

    def run(self) -> RunReport:
        pipeline = frazil.load(self.folder)
        return frazil.run(pipeline, spark=spark_session(pipeline))

    def refused(self) -> FrazilError:
        with pytest.raises(RunFailedError) as refused:
            self.run()
        return refused.value.errors[0]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in api.query(self.folder, sql).rows]

    def names(self, mart: str) -> str:
        """Return the columns of a mart, without what depends on runs."""
        names = api.query(self.folder, f"SELECT * FROM {mart}").columns
        return ", ".join(name for name in names if not name.startswith("_"))

    def keys(self) -> list[int]:
        return [row[0] for row in self.rows("SELECT id FROM t ORDER BY id")]

    def wrong(self) -> list[str]:
        return [f"{finding}" for finding in api.check(self.folder) if finding.ok is False]


@pytest.mark.long
def test_a_snapshot_that_lacks_rows_stops_the_table_until_the_declaration_says_why(
    spark: SparkSession, tmp_path: Path
) -> None:
    del spark
    shop = Shop(tmp_path)
    shop.land("1", FIRST)
    shop.land("2", CHANGES)
    shop.run()
    shop.land("3", AGAIN[:4])
    shop.run()

    before = shop.keys()
    shop.land("4", AGAIN[4:])
    error = shop.refused()
    held = shop.keys()
    shop.declare(", snapshots: whole")
    report = shop.run().tables[0]

    assert (error.code, error.exit_code) == ("FZ416", 5)
    assert "lacks 1 of 11 rows" in f"{error}"
    assert "snapshots: partial" in (error.hint or "")
    assert held == before == [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert shop.keys() == [1, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert "lacks 1 row" in report.warnings[0]
    assert shop.rows(
        "SELECT id, is_deleted, substr(deleted_at::VARCHAR, 1, 16) FROM t_soft WHERE is_deleted ORDER BY id"
    ) == [
        (2, True, "2026-01-01 00:02"),
        (3, True, "2026-01-01 01:00"),
    ]
    assert shop.wrong() == []


@pytest.mark.long
def test_rows_that_a_partial_snapshot_lacks_stay(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    shop = Shop(tmp_path)
    shop.land("1", FIRST)
    shop.land("2", [*CHANGES, *AGAIN])
    shop.refused()

    shop.declare(", snapshots: partial")
    shop.run()

    assert shop.keys() == [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert shop.wrong() == []


@pytest.mark.long
def test_a_snapshot_of_the_same_rows_changes_no_version(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    shop = Shop(tmp_path)
    shop.land("1", FIRST)
    shop.land("2", CHANGES[1:])
    shop.run()
    marts = ("t", "t_soft", "t_history", "t_mark")

    before = [shop.rows(f"SELECT {shop.names(mart)} FROM {mart} ORDER BY ALL") for mart in marts]
    again = [(op, key, 200, 60, marker) for op, key, _, _, marker in FIRST if key != 2]
    text = "".join(line(*event).replace(f'"n": {event[1]}', '"n": 0') for event in again)
    (tmp_path / "landing" / "t" / "3.jsonl").write_text(text)
    shop.run()

    assert [shop.rows(f"SELECT {shop.names(mart)} FROM {mart} ORDER BY ALL") for mart in marts] == before


@pytest.mark.long
def test_a_snapshot_that_lacks_too_many_rows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    shop = Shop(tmp_path)
    shop.declare(", snapshots: whole")
    shop.land("1", FIRST)
    shop.run()
    shop.land("2", [("r", 1, 200, 60, "last")])

    error = shop.refused()
    shop.declare(", snapshots: whole, max_delete_fraction: 1")
    shop.run()

    assert error.code == "FZ402"
    assert shop.keys() == [1]


def test_a_killed_run_ends_as_one_that_was_not_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE: the deletes of a snapshot are in silver before they are in the marts."""
    del spark
    shop, twin = (Shop(tmp_path / name) for name in ("shop", "twin"))
    for one in (shop, twin):
        one.declare(", snapshots: whole")
        one.land("1", FIRST)
        one.run()
        one.land("2", [*CHANGES, *AGAIN])
    twin.run()

    for name in ("bronze.after_publish", "silver.before_publish", "silver.after_publish", "mart.after_publish"):
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{name}:raise")
        with run_fails_with(FailpointReached):
            shop.run()
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    shop.run()

    for mart in ("t", "t_soft", "t_history", "t_mark"):
        sql = f"SELECT {shop.names(mart)} FROM {mart} ORDER BY ALL"
        assert shop.rows(sql) == twin.rows(sql)
    assert shop.keys() == [1, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert shop.wrong() == []


def test_the_last_read_of_a_first_snapshot_may_arrive_before_other_reads(spark: SparkSession, tmp_path: Path) -> None:
    """Several threads read the table (snapshot.max.threads): the mark is in another partition than most reads."""
    del spark
    shop = Shop(tmp_path)

    shop.land("1", [FIRST[-1], FIRST[0]])
    shop.run()
    shop.land("2", [*CHANGES, *FIRST[1:-1]])
    shop.run()

    assert shop.keys() == [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert shop.wrong() == []


def warned(shop: Shop, name: str, *events: tuple[str, int, int], place: str = "__lsn") -> list[str]:
    """Land flat rows and run; the codes of its warnings."""
    rows = ({"id": key, "n": at, "__op": op, place: at, "__source_ts_ms": at} for op, key, at in events)
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (shop.folder / "landing" / "t" / f"{name}.jsonl").write_text(text)
    return [warning[:5] for warning in shop.run().tables[0].warnings]


def test_a_snapshot_without_an_end_is_warned_of_once_changes_came_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    del spark
    shop = Shop(tmp_path)
    shop.declare(", form: flat")

    assert warned(shop, "1", ("r", 1, 100), ("r", 2, 100)) == []
    assert warned(shop, "2", ("u", 1, 110), ("r", 3, 100)) == []
    assert warned(shop, "3", ("r", 1, 200), ("r", 3, 200)) == ["FZ418"]
    assert shop.keys() == [1, 2, 3]
    shop.declare(", form: flat, snapshots: partial")
    assert warned(shop, "4", ("r", 1, 300)) == []


def test_reads_that_only_times_order_are_warned_of_once_older_changes_came(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    shop, time = Shop(tmp_path), "__source_ts_ms"
    shop.declare(", form: flat")

    assert warned(shop, "1", ("r", 1, 100), ("r", 2, 100), place=time) == []
    assert warned(shop, "2", ("u", 1, 110), ("r", 3, 109), place=time) == []
    assert warned(shop, "3", ("r", 2, 110), place=time) == [], "of the same time"
    assert warned(shop, "4", ("r", 1, 200), place=time) == ["FZ418"]
    assert shop.rows("SELECT id, n FROM t ORDER BY id") == [(1, 110), (2, 110), (3, 109)]
    shop.declare(", form: flat, snapshots: partial")
    assert warned(shop, "5", ("r", 1, 300), place=time) == []


class Lake:
    """Drawn topics as tables of one lake."""

    def __init__(self, folder: Path, seed: int, tables: int, steps: int) -> None:
        self.folder, self.chance = folder, Random(seed)
        self.topics = {f"t{number}": Topic(Random(f"{seed} {number}")) for number in range(tables)}
        self.left: dict[str, list[Sequence[int]]] = {}
        self.arrived: dict[str, list[int]] = {name: [] for name in self.topics}
        for name, topic in self.topics.items():
            topic.live(50)
            self.left[name] = split(topic, self.chance, steps)
            (folder / "landing" / name).mkdir(parents=True)
        listed = "".join(
            TABLE.format(name=name, more=", snapshots: whole, max_delete_fraction: 1") for name in self.topics
        )
        (folder / "frazil.yml").write_text(f"pipeline: topics\nlake: {{warehouse: ./lake}}\ntables:{listed}\n")

    def differences(self, steps: int) -> list[str]:
        found = []
        for step in range(steps):
            for name, topic in self.topics.items():
                batch = self.left[name].pop(0)
                self.arrived[name] += batch
                text = "".join(topic.lines[number] for number in batch)
                (self.folder / "landing" / name / f"{batch[0]:06}.jsonl").write_text(text)
            self.run()
            found += self.compare(f"step {step}")
        self.run(rebuild=True)
        found += self.compare("the rebuild")
        return [*found, *(f"{finding}" for finding in api.check(self.folder) if finding.ok is False)]

    def run(self, *, rebuild: bool = False) -> None:
        pipeline = frazil.load(self.folder)
        policy = DEFAULT_POLICY if self.chance.random() < 0.5 else go_by(self.chance.choice(STRATEGIES))
        frazil.run(pipeline, spark=spark_session(pipeline), rebuild=rebuild, options=RunOptions(policy=policy))

    def compare(self, when: str) -> list[str]:
        found = []
        for name, topic in self.topics.items():
            changes = changes_of(topic.messages[number] for number in self.arrived[name])
            wanted = {
                name: current(changes, COLUMNS),
                f"{name}_soft": soft(changes, COLUMNS),
                f"{name}_history": history(changes, COLUMNS, ["n"]),
                f"{name}_mark": history(changes, COLUMNS, ["n"], "mark"),
            }
            for mart, rows in wanted.items():
                names = [one for one in rows[0] if not one.startswith("_cdc")] if rows else [*COLUMNS]
                have = Counter(map(plain, api.query(self.folder, f"SELECT {', '.join(names)} FROM {mart}").rows))
                want = Counter(plain(row[one] for one in names) for row in rows)
                if have != want:
                    more, less = sorted((have - want).elements()), sorted((want - have).elements())
                    found.append(f"{when}: {mart} has {more}, lacks {less}")
        return found


def plain(row: Iterable[Any]) -> str:
    return repr([one.replace(tzinfo=UTC) if isinstance(one, datetime) and one.tzinfo is None else one for one in row])


@pytest.mark.long
def test_drawn_snapshots_delete_what_they_prove_absent(spark: SparkSession, tmp_path: Path) -> None:
    """CONVERGE: batches in any order and a rebuild give what the oracle says, without wrong rows in between."""
    del spark  # only there so that Java runs
    lake = Lake(tmp_path, 1, tables=2, steps=3)

    assert lake.differences(3) == []
    assert sum(topic.loses for topic in lake.topics.values()) > 2


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_drawn_snapshots_delete_what_they_prove_absent(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    del spark
    lake = Lake(tmp_path, seed, tables=5, steps=5)

    assert lake.differences(5) == []
