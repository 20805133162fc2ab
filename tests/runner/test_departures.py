"""KEY-CHANGE: keys that shift, are swapped and go in cycles, split over files that arrive in any order."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.properties.shifts import FIELDS, as_parts, random_shifts

import frazil
from frazil import api
from frazil.runner.key_changes import departures
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.testing.changes import Record

pytestmark = pytest.mark.spark

DECLARATION = """\
pipeline: moves
lake: {warehouse: ./lake}
tables:
  - name: things
    source: {kind: dms, path: ./landing, header: true, before_image_prefix: BI_}
    keys: [h, id]
    columns: [{name: h, type: int}, {name: id, type: int}, {name: v}]
    marts: [{kind: current}, {kind: current, deletes: soft, name: soft}]
"""
DEBEZIUM = "kind: debezium, path: ./landing, settle_seconds: 0"
Table = dict[tuple[int, int], str]


def live(folder: Path, seeds: range, arrivals: tuple[int, ...]) -> Table:
    """Let the parts of some histories arrive, one a run; return the table that the source has in the end."""
    landing, table = folder / "landing", Table()
    landing.mkdir()
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    parts: dict[int, list[str]] = {number: [] for number in arrivals}
    for seed in seeds:
        records, rows = random_shifts(seed)
        table |= {(seed, key): value for key, value in rows.items()}
        for number, part in enumerate(as_parts(records, seed, len(arrivals))):
            parts[number] += [
                ",".join(f"{record[name]}" if record[name] is not None else "NULL" for name in FIELDS)
                + f",{seed},{seed}"
                for record in part
            ]
    for number in arrivals:
        text = "\n".join([",".join((*FIELDS, "h", "BI_h")), *parts[number], ""])
        (landing / f"2026010{number + 1}-000000001.csv").write_text(text, encoding="utf-8")
        pipeline = frazil.load(folder)
        frazil.run(pipeline, spark=spark_session(pipeline))
    return table


def rows_of(folder: Path) -> Table:
    return {(h, key): value for h, key, value in api.query(folder, "SELECT h, id, v FROM things").rows}


@pytest.mark.laws
@pytest.mark.long
@pytest.mark.parametrize(
    "arrivals", [pytest.param((0, 1, 2), id="in order", marks=pytest.mark.laws), pytest.param((0, 2, 1), id="late")]
)
def test_rows_whose_keys_shift_are_where_the_source_has_them(
    arrivals: tuple[int, ...], spark: SparkSession, tmp_path: Path
) -> None:
    """Keys that shifted in one batch are left again in the next."""
    del spark  # only there so that Java runs
    table = live(tmp_path, range(20), arrivals)

    assert rows_of(tmp_path) == table
    assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []


def events_of(records: Sequence[Record], seed: int, headers: str, *, whole: bool = False) -> list[list[dict[str, Any]]]:
    """Return the messages that Debezium makes of each record, by partition; a change of key is two, and a tombstone."""
    offsets, found = Counter[int](), list[list[dict[str, Any]]]()
    for lsn, record in enumerate(records, start=1):
        old, new = record["BI_id"], record["id"]
        moves = record["op"] == "U" and old != new
        found.append([])
        for op, key in (
            (("d", old), ("c", new)) if moves else (({"I": "c", "U": "u", "D": "d"}[f"{record['op']}"], new),)
        ):
            image = {"h": seed, "id": int(key or 0)}
            source = {"lsn": lsn, "sequence": f'["{lsn}","{lsn}"]', "ts_ms": 1_767_225_600_000, "snapshot": "false"}
            value: dict[str, Any] = {"op": op, "before": image if op == "d" else None, "source": source}
            # A change of key that does not carry a value keeps it.
            told = "__debezium_unavailable_value" if moves and lsn % 2 and not whole else record["v"]
            value["after"] = None if op == "d" else image | {"v": told}
            # As many partitions as keys, or one; every record of a key is in the same.
            partition = int(key or 0) % 3 if headers else 0
            other, of_other = ("newkey", new) if op == "d" else ("oldkey", old)
            other_key = json.dumps({"h": seed, "id": int(of_other or 0)})
            # Older topics name no new key.
            is_named = headers and moves and (op == "c" or whole or lsn % 3)
            named = [[f"__debezium.{other}", other_key]] if is_named else []
            for one in (value, None) if op == "d" else (value,):
                at = {"topic": "t", "partition": partition, "offset": offsets[partition]}
                offsets[partition] += 1
                found[-1].append(at | {"key": json.dumps(image), "value": one and json.dumps(one), "headers": named})
    return found


@pytest.mark.laws
@pytest.mark.parametrize(("headers", "parts"), [pytest.param("headers", 3, marks=pytest.mark.laws), ("", 3)])
def test_a_delete_and_a_create_of_debezium_are_one_change_of_key(
    headers: str, parts: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Messages of one change may be in several partitions, so in several batches; some come again."""
    del spark
    landing, table, chance = tmp_path / "landing", Table(), Random(parts)
    landing.mkdir()
    text = DECLARATION.replace("kind: dms, path: ./landing, header: true, before_image_prefix: BI_", DEBEZIUM)
    (tmp_path / "frazil.yml").write_text(text, encoding="utf-8")
    batches: list[list[dict[str, Any]]] = [[] for _ in range(parts)]
    for seed in range(20):
        records, rows = random_shifts(seed)
        table |= {(seed, key): value for key, value in rows.items()}
        events = events_of(records, seed, headers)
        cuts = sorted(chance.sample(range(1, len(events)), parts - 1))
        for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(events)], strict=True)):
            # What one partition has from somewhere on is late by a batch.
            from_offset = chance.randint(0, 40) if headers else 10_000
            for message in (one for event in events[start:end] for one in event):
                late = message["partition"] == 1 and message["offset"] >= from_offset
                batches[min(number + late, parts - 1)].append(message | {"topic": f"t{seed}"})
        batches[-1] += [one | {"topic": f"t{seed}", "offset": one["offset"] + 10_000} for one in events[-1]]
    for number, batch in enumerate(batches):
        lines = "".join(f"{json.dumps(one)}\n" for one in batch)
        (landing / f"{number}.jsonl").write_text(lines, encoding="utf-8")
        pipeline = frazil.load(tmp_path)
        frazil.run(pipeline, spark=spark_session(pipeline))

    assert rows_of(tmp_path) == table
    assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []


@pytest.mark.laws
def test_deletes_that_hit_the_row_that_came_are_seen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    monkeypatch.setattr(departures, "without_departures", lambda _context, _contract, rows, _void: rows)

    assert live(tmp_path, range(4), (0,)) != rows_of(tmp_path)
