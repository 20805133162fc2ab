"""KEY-CHANGE and NOTHING-LOST: changes of key in quarantine beside sound ones of the same statement."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.properties.shifts import FIELDS, random_shifts, spoiled
from tests.runner.test_departures import DEBEZIUM, DECLARATION, Table, events_of, rows_of

import frazil
from frazil import api
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.testing.changes import Record

pytestmark = pytest.mark.spark

DMS = "kind: dms, path: ./landing, header: true, before_image_prefix: BI_"
UNREAD = f"{DEBEZIUM}, encodings: {{day: date}}"
SOURCES = {
    "one record": (DMS, ""),
    "headers": (DEBEZIUM, "headers"),
    "files": (DEBEZIUM, ""),
    "values that cannot be read": (UNREAD, ""),
}
PARTS = 2


def as_dms(records: list[Record], seed: int, bad: set[int]) -> list[str]:
    """Return lines of CSV."""
    return [
        ",".join(f"{record[name]}" if record[name] is not None else "NULL" for name in FIELDS)
        + f",{seed},{seed},{'x' if number in bad else 1}\n"
        for number, record in enumerate(records)
    ]


def as_debezium(records: list[Record], seed: int, bad: set[int], headers: str, wrong: str) -> list[str]:
    """Return the messages of each record, as one text; ``wrong`` is the field that is wrong in bad ones."""
    lines = []
    for number, messages in enumerate(events_of(records, seed, headers, whole=True)):
        for message in messages:
            if (value := json.loads(message["value"] or "null")) and value["after"]:
                value["after"] |= {"n": 1, wrong: "x" if number in bad else 1}
                message["value"] = json.dumps(value)
        lines.append("".join(f"{json.dumps(message | {'topic': f't{seed}'})}\n" for message in messages))
    return lines


@pytest.mark.laws
@pytest.mark.long
@pytest.mark.parametrize(
    "source", ["headers", *(pytest.param(name, marks=pytest.mark.laws) for name in SOURCES if name != "headers")]
)
def test_a_bad_change_of_key_leaves_no_other_row_wrong(source: str, spark: SparkSession, tmp_path: Path) -> None:
    """Rows whose last record is sound are right before the others are corrected; then all are."""
    del spark
    kind, headers = SOURCES[source]
    (tmp_path / "landing").mkdir()
    more = "{name: v}, {name: n, type: int}" + (", {name: day}]" if kind == UNREAD else "]")
    text = DECLARATION.replace(DMS, kind).replace("{name: v}]", more)
    (tmp_path / "frazil.yml").write_text(
        text.replace("    marts:", "    max_bad_fraction: 1.0\n    marts:"), encoding="utf-8"
    )
    sound, table, parts = Table(), Table(), [list[str]() for _ in range(PARTS)]
    for seed in range(10):
        records, rows = random_shifts(seed)
        bad, shown = spoiled(records, Random(seed))
        sound |= {(seed, key): value for key, value in shown.items()}
        table |= {(seed, key): value for key, value in rows.items()}
        lines = (
            as_dms(records, seed, bad)
            if kind == DMS
            else as_debezium(records, seed, bad, headers, "day" if kind == UNREAD else "n")
        )
        cuts = [0, *sorted(Random(seed).sample(range(1, len(lines)), PARTS - 1)), len(lines)]
        for part, start, end in zip(parts, cuts, cuts[1:], strict=False):
            part.extend(lines[start:end])
    for number, part in enumerate(parts):
        name = f"2026010{number + 1}-000000001.csv" if kind == DMS else f"{number}.jsonl"
        head = ",".join((*FIELDS, "h", "BI_h", "n")) + "\n" if kind == DMS else ""
        (tmp_path / "landing" / name).write_text(head + "".join(part), encoding="utf-8")
        run(tmp_path)

    before = rows_of(tmp_path)
    assert {key: before.get(key) for key in sound} == sound
    if kind != DMS:
        assert {key: value for key, value in before.items() if key not in sound and key not in table} == {}
    assert unproven(tmp_path) == []
    correct(tmp_path)
    assert rows_of(tmp_path) == table
    assert unproven(tmp_path) == []


CHAIN: list[tuple[str, int | None, int, str, int]] = [
    *((("I", None, key, f"v{key}", 1)) for key in (1, 4, 6)),
    ("U", 1, 4, "v1", 0),
    ("U", 4, 3, "v4", 1),
]
"""Op, old key, key, value, and whether it is sound; the row that comes to key 4 goes to quarantine."""
NEXT: list[tuple[str, int | None, int, str, int]] = [("U", 6, 4, "v6", 1), ("U", 4, 5, "v1", 1)]


@pytest.mark.long
@pytest.mark.parametrize("source", ["one record", pytest.param("headers", marks=pytest.mark.laws)])
def test_a_row_in_quarantine_leaves_its_key_in_a_later_batch(source: str, spark: SparkSession, tmp_path: Path) -> None:
    """The delete of the row that was there before it, in silver since an earlier batch, emptied no key."""
    del spark
    kind, headers = SOURCES[source]
    (tmp_path / "landing").mkdir()
    text = DECLARATION.replace(DMS, kind).replace("{name: v}]", "{name: v}, {name: n, type: int}]")
    (tmp_path / "frazil.yml").write_text(text, encoding="utf-8")
    told = [
        {"op": op, "id": key, "BI_id": old, "v": value, "sound": sound} for op, old, key, value, sound in CHAIN + NEXT
    ]
    bad = {number for number, one in enumerate(told) if not one.pop("sound")}
    records: list[Any] = told
    lines = as_dms(records, 0, bad) if kind == DMS else as_debezium(records, 0, bad, headers, "n")
    for number, part in enumerate((lines[: len(CHAIN)], lines[len(CHAIN) :])):
        name = f"2026010{number + 1}-000000001.csv" if kind == DMS else f"{number}.jsonl"
        head = ",".join((*FIELDS, "h", "BI_h", "n")) + "\n" if kind == DMS else ""
        (tmp_path / "landing" / name).write_text(head + "".join(part), encoding="utf-8")
        run(tmp_path)

    shown = {key: value for (_, key), value in rows_of(tmp_path).items()}
    shown.pop(1, None)  # what a bad record alone says has left stays until it is corrected
    assert shown == {3: "v4", 4: "v6", 5: "v1"}
    assert unproven(tmp_path) == []


def run(folder: Path) -> None:
    pipeline = frazil.load(folder)
    frazil.run(pipeline, spark=spark_session(pipeline))


def unproven(folder: Path) -> list[Any]:
    return [finding for finding in api.check(folder) if finding.ok is False]


def correct(folder: Path) -> None:
    """Correct what is in quarantine."""
    pipeline, path = frazil.load(folder), folder / "bad.jsonl"
    api.quarantine_to(folder, "things", path)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for line in lines:
        whole = line["record"] or json.loads(json.loads(line["raw"])["value"])["after"]
        line["record"] = {**whole, "n": "1"} | ({"day": "1970-01-02"} if "day" in whole else {})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    api.replay(pipeline, table="things", corrected=path, spark=spark_session(pipeline))
