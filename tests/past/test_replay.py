"""NOTHING-LOST and CONVERGE: replayed records end as if they had been valid at once, at their old place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil import api
from frazil.failpoints import FailpointReached
from frazil.runner.report import RunFailedError
from frazil.serve.corrections import CorrectionError
from frazil.spark.session import spark_session
from frazil.spec.load.project import UnwritableFileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [ts]
    columns:
      [{name: id, type: int}, {name: ts, type: timestamp}, {name: total, type: "decimal(8,2)", min: 0}, {name: note}]
    marts: [{kind: current}, {kind: current, name: soft, deletes: soft}, {kind: history}]
"""
FILES = {
    "20260101-000000000.csv": [
        "I,1,2026-01-01 00:00:00,1.00,first",
        "I,2,2026-01-01 00:00:00,2.00,two",
        "I,3,2026-01-01 00:00:00,3.00,three",
    ],
    "20260102-000000000.csv": [
        "U,1,2026-01-02 00:00:00,eleven,bad total",
        "D,2,2026-01-02 00:00:00,2.00,",
        "U,3,2026-01-02 00:00:00,-3.00,below zero",
    ],
    "20260103-000000000.csv": [
        "U,1,2026-01-03 00:00:00,111.00,later",
        "U,2,2026-01-03 00:00:00",
        "U,3,yesterday,4.00,no time",
    ],
}
RIGHT = {
    "U,1,2026-01-02 00:00:00,eleven,bad total": "U,1,2026-01-02 00:00:00,11.00,bad total",
    "U,3,2026-01-02 00:00:00,-3.00,below zero": "U,3,2026-01-02 00:00:00,0.50,below zero",
    "U,2,2026-01-03 00:00:00": "U,2,2026-01-03 00:00:00,2.50,again",
    "U,3,yesterday,4.00,no time": "U,3,2026-01-01 12:00:00,4.00,no time",
}


@dataclass
class Orders:
    """A lake over three files, a run each."""

    folder: Path

    def land(self, name: str, right: dict[str, str] | None = None) -> None:
        (self.folder / "landing").mkdir(parents=True, exist_ok=True)
        lines = [(right or {}).get(line, line) for line in FILES[name]]
        (self.folder / "landing" / name).write_text("\n".join(["Op,id,ts,total,note", *lines, ""]), encoding="utf-8")

    def run(self) -> Any:
        pipeline = frazil.load(self.folder)
        return frazil.run(pipeline, spark=spark_session(pipeline)).tables[0]

    def replay(self, corrected: Path | None = None) -> Any:
        pipeline = frazil.load(self.folder)
        return api.replay(pipeline, table="orders", corrected=corrected, spark=spark_session(pipeline)).tables[0]

    def tables(self) -> dict[str, list[Any]]:
        asked = "SELECT * EXCLUDE (_cdc_position) FROM marts.{} ORDER BY ALL"
        return {
            mart: [tuple(row) for row in api.query(self.folder, asked.format(mart)).rows]
            for mart in ("orders", "soft", "orders_history")
        }

    def waiting(self) -> dict[tuple[str, int], str]:
        found = api.quarantine(self.folder, "orders", limit=100).records
        return {(one.file.removeprefix("landing/"), one.row): one.rule for one in found}

    def is_sound(self) -> bool:
        before = self.tables(), self.waiting()
        api.rebuild(self.folder, spark=spark_session(frazil.load(self.folder)))
        return (self.tables(), self.waiting()) == before and all(
            finding.ok is not False for finding in api.check(self.folder)
        )


@pytest.fixture
def orders(tmp_path: Path, spark: SparkSession) -> Orders:
    del spark  # only there so that Java runs
    made = Orders(tmp_path / "bad")
    for name in FILES:
        made.land(name)
        (made.folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
        made.run()
    return made


def right_from_the_start(folder: Path) -> Orders:
    made = Orders(folder)
    for name in FILES:
        made.land(name, RIGHT)
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    made.run()
    return made


def corrected(path: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Path:
    """Edit a file of corrections as a person does."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    edited = [change(line) for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in edited if line is not None), encoding="utf-8")
    return path


def as_right(line: dict[str, Any]) -> dict[str, Any]:
    was = FILES[line["file"].removeprefix("landing/")][line["row"] - 1]
    return line | {"record": dict(zip(("Op", "id", "ts", "total", "note"), RIGHT[was].split(","), strict=True))}


EVENTS = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: debezium, path: ./landing, settle_seconds: 0}
    keys: [id]
    columns: [{name: id, type: int}, {name: note}]
    evolution: {on_new_column: keep}
    max_bad_fraction: 1
    marts: [{kind: current}, {kind: current, name: soft, deletes: soft}, {kind: history}]
"""


def event(lsn: int, op: str, note: str) -> str:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "lsn": lsn, "ts_ms": lsn * 1000}
    return json.dumps({"before": None, "after": {"id": 1, "note": note}, "source": source, "op": op, "ts_ms": lsn})


@pytest.mark.long
@pytest.mark.parametrize("cut", [1, *(pytest.param(cut, marks=pytest.mark.laws) for cut in (0, 2))])
def test_a_corrected_record_that_could_not_be_parsed_stands_between_its_neighbours(
    tmp_path: Path, spark: SparkSession, cut: int
) -> None:
    """Events carry their own places; of one that cannot be parsed only its place in the file is known."""
    del spark  # only there so that Java runs
    made, notes = Orders(tmp_path), ["a", "b", "c"]
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(EVENTS, encoding="utf-8")
    lines = [event(10 * number, "u" if number else "c", note) for number, note in enumerate(notes, 1)]
    lines[cut] = lines[cut][:-5]
    (tmp_path / "landing" / "1.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")
    made.run()
    path = tmp_path / "corrections.jsonl"
    assert api.quarantine_to(tmp_path, "orders", path) == 1

    record = {"__op": "u", "id": "1", "note": notes[cut], "__source_ts": f"1970-01-01T00:00:{10 * (cut + 1)}Z"}
    made.replay(corrected(path, lambda line: line | {"record": record}))

    assert [row[1] for row in made.tables()["orders"]] == ["c"]
    asked = "SELECT note FROM marts.orders_history ORDER BY valid_from"
    assert [note for (note,) in api.query(tmp_path, asked).rows] == notes
    assert made.is_sound()


@pytest.mark.long
def test_corrected_records_end_as_if_they_had_been_right_at_once(orders: Orders, tmp_path: Path) -> None:
    path = tmp_path / "corrections.jsonl"
    with pytest.raises(UnwritableFileError, match="No such file"):
        api.quarantine_to(orders.folder, "orders", tmp_path / "none" / "corrections.jsonl")
    assert api.quarantine_to(orders.folder, "orders", path) == len(RIGHT)

    # Some are corrected first, one of them wrongly, and one by a number; what is left as it was changes nothing.
    def some(line: dict[str, Any]) -> dict[str, Any]:
        place = line["file"].removeprefix("landing/20260102-"), line["row"]
        if place == ("000000000.csv", 1):
            return line | {"record": line["record"] | {"total": 11.00}}
        return line | {"record": line["record"] | {"total": "-4"}} if place == ("000000000.csv", 3) else line

    report = orders.replay(corrected(path, some))

    assert (report.changes, report.quarantined) == (1, 1)
    assert len(orders.waiting()) == len(RIGHT) - 1
    assert orders.is_sound()

    # Then the others, and the run that takes them takes a new file too.
    api.quarantine_to(orders.folder, "orders", path)
    report = orders.replay(corrected(path, as_right))

    assert (report.changes, report.quarantined, orders.waiting()) == (len(RIGHT) - 1, 0, {})
    assert orders.tables() == right_from_the_start(tmp_path / "right").tables()
    assert orders.is_sound()
    records = api.key(orders.folder, "orders", ["1"]).records
    assert [one.is_correction for one in records] == [False, False, True, False]
    assert [one.fields["total"] for one in records] == [
        "1.00",
        "eleven",
        "11.0",
        "111.00",
    ]

    with pytest.raises(CorrectionError, match="3 records are not in quarantine of table 'orders': line 1: landing"):
        orders.replay(corrected(path, lambda line: line))


@pytest.mark.long
def test_a_batch_after_a_correction_needs_no_spark(orders: Orders, tmp_path: Path) -> None:
    path = tmp_path / "corrections.jsonl"
    api.quarantine_to(orders.folder, "orders", path)
    assert orders.replay(corrected(path, as_right)).by_spark == ["corrections"]
    lines = "Op,id,ts,total,note\nU,3,2026-01-02 00:00:00,5.00,between\nD,1,2026-01-04 00:00:00,,\n"
    (orders.folder / "landing" / "20260104-000000000.csv").write_text(lines, encoding="utf-8")

    report = orders.run()

    assert (report.changes, report.by_spark) == (2, [])
    assert orders.is_sound()


@pytest.mark.long
def test_the_next_run_continues_a_killed_replay(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "corrections.jsonl"
    api.quarantine_to(orders.folder, "orders", path)
    lines = corrected(path, as_right).read_text(encoding="utf-8").splitlines(keepends=True)
    before = orders.tables(), orders.waiting()

    def dies(failpoint: str, *some: str) -> None:
        path.write_text("".join(some), encoding="utf-8")
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{failpoint}:raise")
        with pytest.raises((FailpointReached, RunFailedError)):
            orders.replay(path)
        monkeypatch.delenv("FRAZIL_FAILPOINT")

    dies("replay.before_publish", *lines)
    orders.run()
    assert (orders.tables(), orders.waiting()) == before

    for number, failpoint in enumerate(("replay.after_publish", "quarantine.after_publish", "silver.after_publish")):
        stands = orders.tables()
        dies(failpoint, lines[number])
        assert orders.tables() == stands
        orders.run()
        assert len(orders.waiting()) == len(RIGHT) - 1 - number
    path.write_text(lines[-1], encoding="utf-8")
    orders.replay(path)
    assert orders.tables() == right_from_the_start(tmp_path / "right").tables()


@pytest.mark.long
def test_what_a_new_declaration_takes_is_replayed_without_a_file(orders: Orders) -> None:
    assert orders.replay().outcome == "nothing new"

    (orders.folder / "frazil.yml").write_text(DECLARATION.replace(", min: 0", ""), encoding="utf-8")
    orders.replay()

    assert orders.waiting() == {
        ("20260102-000000000.csv", 1): "cast",
        ("20260103-000000000.csv", 2): "record",
        ("20260103-000000000.csv", 3): "cast",
    }
    assert orders.is_sound()


@pytest.mark.laws
def test_aggregates_over_other_tables_too_follow_what_is_replayed(orders: Orders, tmp_path: Path) -> None:
    rates = orders.folder / "rates"
    rates.mkdir()
    (rates / "LOAD00000001.csv").write_text("id,rate\n1,2\n", encoding="utf-8")
    more = """
  - name: rates
    source: {kind: dms, path: ./rates, header: true}
    keys: [id]
    columns: [{name: id, type: int}, {name: rate, type: int}]
gold:
  - {name: value, sql: "select sum(s.total * r.rate) as total from {{ orders_history }} s cross join {{ rates }} r"}
"""
    (orders.folder / "frazil.yml").write_text(f"{DECLARATION.rstrip()}{more}", encoding="utf-8")
    orders.run()
    path = tmp_path / "corrections.jsonl"
    api.quarantine_to(orders.folder, "orders", path)

    orders.replay(corrected(path, as_right))

    of_marts = "select sum(total) * 2 as total from marts.orders_history"
    assert api.query(orders.folder, "select total from gold.value").rows == api.query(orders.folder, of_marts).rows
