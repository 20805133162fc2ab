"""However the records of a row come, the table has the row that its source has, and all proofs hold."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.hostile.row_events import EVENTS, EventStory
from tests.hostile.row_stories import ORDERED, PLACED, Story
from tests.hostile.situation import command

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DECLARATION: Final = """
pipeline: stories
lake: {warehouse: ./lake}
tables:
  - name: ordered
    source: {kind: dms, path: ./landing/ordered, header: true, settle_seconds: 0}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: v}]
    marts: [{kind: current}, {kind: current, name: soft, deletes: soft}, {kind: history}]
  - name: placed
    source: {kind: dms, path: ./landing/placed, header: true, settle_seconds: 0}
    keys: [id]
    columns: [{name: id, type: int}, {name: v}]
  - name: events
    source: {kind: debezium, path: ./landing/events, settle_seconds: 0}
    keys: [id]
    columns: [{name: id, type: int}, {name: v}]
    marts: [{kind: current}, {kind: current, name: events_soft, deletes: soft}]
"""
FILES: Final = {
    "L": "LOAD00000001.csv",
    "1": "20260102-000000000.csv",
    "2": "20260103-000000000.csv",
    "0": "20260101-000000000.csv",
    "3": "20260104-000000000.csv",
}
RUNS: Final = ("L12", "03")
_RECORD: Final = re.compile(r"([L0-3]):([IUD])(\w*)(?:@(-?\d+|-))?")


def land(folder: Path, stories: tuple[Story, ...], files: str) -> None:
    """Write some files, each with the records that all stories have in it."""
    found: dict[str, list[str]] = {}
    for number, story in enumerate(stories):
        for file, op, value, second in _RECORD.findall(story.records):
            time = [] if folder.name == "placed" else [_time(second)]
            found.setdefault(file, []).append(",".join([op, f"{number}", *time, value or "NULL"]))
    folder.mkdir(parents=True, exist_ok=True)
    header = "op,id,v" if folder.name == "placed" else "op,id,ts,v"
    for file in files:
        (folder / FILES[file]).write_text("\n".join([header, *found.get(file, ()), ""]), encoding="utf-8")


def land_events(folder: Path) -> None:
    """Write one file with the events of all stories, one behind another in the binlog."""
    folder.mkdir(parents=True)
    every = [(key, event) for key, story in enumerate(EVENTS) for event in story.events]
    lines = [event.line(key, 100 + place) for place, (key, event) in enumerate(every)]
    (folder / "0.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _time(second: str) -> str:
    return "NULL" if second == "-" else f"{datetime(2026, 1, 1) + timedelta(seconds=int(second))}"  # noqa: DTZ001


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A lake of all stories, after two runs."""
    del spark  # only there so that Java runs
    folder = tmp_path_factory.mktemp("stories")
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    land_events(folder / "landing" / "events")
    for files in RUNS:
        for name, stories in (("ordered", ORDERED), ("placed", PLACED)):
            land(folder / "landing" / name, stories, files)
        said = command("run", f"{folder}")
        assert said.code == 0, said.text
    return folder


@pytest.fixture(scope="module")
def rows(lake: Path) -> dict[str, dict[int, str]]:
    """Values by key, of each table."""

    def asked(table: str) -> list[dict[str, Any]]:
        sql = f"select id, coalesce(v, 'NULL') as v from marts.{table}"
        return list(json.loads(command("query", sql, f"{lake}", "--json").stdout))

    return {table: {row["id"]: row["v"] for row in asked(table)} for table in ("ordered", "placed", "events")}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("story", ORDERED, ids=lambda story: story.name)
def test_a_row_ordered_by_time_is_what_its_source_has(story: Story, rows: dict[str, dict[int, str]]) -> None:
    assert rows["ordered"].get(ORDERED.index(story)) == story.kept


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("story", PLACED, ids=lambda story: story.name)
def test_a_row_ordered_by_place_is_what_its_source_has(story: Story, rows: dict[str, dict[int, str]]) -> None:
    assert rows["placed"].get(PLACED.index(story)) == story.kept


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("story", EVENTS, ids=lambda story: story.name)
def test_a_row_of_events_has_the_value_of_its_source(story: EventStory, rows: dict[str, dict[int, str]]) -> None:
    assert rows["events"].get(EVENTS.index(story)) == story.kept


@pytest.mark.long
@pytest.mark.spark
def test_all_marts_agree_and_quarantine_has_the_events_that_cannot_be_read(lake: Path) -> None:
    checked = command("check", f"{lake}", "--json")

    assert [found for found in json.loads(checked.stdout) if not found["ok"] and found["law"] != "SOURCE"] == []
    rules = json.loads(command("quarantine", f"{lake}", "--json").stdout)["rules"]
    assert {rule["table"] for rule in rules} == {"events"}
    assert sum(rule["records"] for rule in rules) == sum(story.quarantined for story in EVENTS)
