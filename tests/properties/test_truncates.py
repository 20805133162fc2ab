"""TRUNCATE: whatever is older is deleted then, in any order of arrival and any split into batches."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.sources.tiny import tiny_kind

import frazil
from frazil.lake.refs import head
from frazil.runner.report import RunFailedError
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.spark.session import spark_session
from frazil.spec.load.parse import parse_declaration
from frazil.testing.changes import COLUMNS, deliveries, oracle_changes, random_history
from frazil.testing.oracle import Change, current, history, soft

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline
    from frazil.testing.changes import Record

pytestmark = pytest.mark.spark

_PARTS, _SIZE = 5, 50
_FAILPOINTS = ("bronze.after_publish", "silver.before_publish", "silver.after_publish", "mart.before_publish")


@pytest.fixture(autouse=True)
def tiny() -> Iterator[None]:
    with tiny_kind():
        yield


def declared(folder: Path) -> Pipeline:
    columns = ", ".join(f"{{name: {name}, type: {kind}}}" for name, kind in COLUMNS.items())
    return parse_declaration(f"""
pipeline: truncates
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: tiny, path: ./landing}}
    keys: [id]
    sequence_by: [ts]
    columns: [{columns}]
    marts: [{{kind: current}}, {{kind: current, deletes: soft, name: soft}}, {{kind: history}}]
""").at(folder)


def drawn(seed: int) -> dict[str, list[Record]]:
    """Draw a history with truncates among it, cut into files; a truncate has only a time."""
    chance = Random(seed)
    records = random_history(seed, size=_SIZE)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(records))
        records.insert(at, {"op": "T", "ts": chance.choice(records)["ts"]})
    cuts = sorted(chance.sample(range(1, len(records)), _PARTS - 1))
    parts = [records[start:end] for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    return {f"{number:06}.jsonl": part for number, part in enumerate(parts)}


def expected(files: Mapping[str, Sequence[Record]]) -> list[Change]:
    """Put deletes in the place of truncates, by the law's own words: of every key that has an older change."""
    changes: list[Change] = []
    truncates = []
    for name, records in files.items():
        for row, record in enumerate(records, start=1):
            if record["op"] == "T":
                truncates.append((f"1/{name}/", row, datetime.fromisoformat(f"{record['ts']}").replace(tzinfo=UTC)))
        rows = [(row, record) for row, record in enumerate(records, start=1) if record["op"] != "T"]
        for row, record in rows:
            [change] = oracle_changes({name: [record]})
            changes.append(Change(**{**_fields(change), "row": row}))
    for position, row, at in truncates:
        order = ((at,), position, row)
        older = {change.key for change in changes if (change.sequence, change.position, change.row) < order}
        changes += [
            Change(key=key, sequence=(at,), position=position, row=row, deleted=True, values={}, event_time=at)
            for key in older
        ]
    return changes


def _fields(change: Change) -> dict[str, Any]:
    return {name: getattr(change, name) for name in Change.__slots__}


def line(record: Record) -> str:
    what = {"D": "unset", "T": "empty"}.get(f"{record['op']}", "set")
    numbers = {
        name: None if record[name] is None else int(record[name] or 0) for name in ("id", "qty") if name in record
    }
    rest = {name: text for name, text in record.items() if name not in {"op", *numbers}}
    return json.dumps({"what": what, **numbers, **rest})


def differences(folder: Path, seed: int, spark: SparkSession, patch: pytest.MonkeyPatch) -> list[str]:
    """Deliver a history in a drawn order, with a killed run or two; return what differs from the oracle."""
    files, chance = drawn(seed), Random(seed + 1)
    (folder / "landing").mkdir(parents=True)
    pipeline = declared(folder)
    for names in deliveries(files, seed):
        for name in names:
            (folder / "landing" / name).write_text("".join(f"{line(one)}\n" for one in files[name]), encoding="utf-8")
        if chance.random() < 0.4:
            patch.setenv("FRAZIL_FAILPOINT", f"{chance.choice(_FAILPOINTS)}:raise")
            with suppress(RunFailedError):
                frazil.run(pipeline, spark=spark)
            patch.delenv("FRAZIL_FAILPOINT")
        frazil.run(pipeline, spark=spark)
    changes, tracked = expected(files), ["name", "qty", "note"]
    found = []
    for mart, rows, extra in (
        ("things", current(changes, [*COLUMNS]), []),
        ("soft", soft(changes, [*COLUMNS]), ["is_deleted", "deleted_at"]),
        ("things_history", history(changes, [*COLUMNS], tracked), ["valid_from", "valid_to", "is_current"]),
    ):
        names = [*COLUMNS, *extra]
        have = query(pipeline, f"SELECT {', '.join(names)} FROM marts.{mart}")
        one = sorted(repr(list(row)) for row in have.rows)
        other = sorted(repr([row[name] for name in names]) for row in rows)
        if one != other:
            found.append(
                f"{seed}: {mart} has {[r for r in one if r not in other]}, lacks {[r for r in other if r not in one]}"
            )
    found += [f"{seed}: {finding}" for finding in check(pipeline) if finding.ok is False]
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_truncate_deletes_what_is_older(
    seed: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs

    assert differences(tmp_path, seed, spark_session(declared(tmp_path)), monkeypatch) == []


@pytest.mark.long
def test_older_changes_behind_a_truncate_are_void(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    pipeline, landing = declared(tmp_path), tmp_path / "landing"
    landing.mkdir()
    rest = {"name": "a", "qty": "1", "note": None}
    batches: list[list[Record]] = [
        [
            {"op": "I", "id": "1", "ts": "2026-01-01 00:00:01", **rest},
            {"op": "T", "ts": "2026-01-01 00:00:05"},
            {"op": "I", "id": "2", "ts": "2026-01-01 00:00:02", **rest},
        ],
        [
            {"op": "I", "id": "3", "ts": "2026-01-01 00:00:03", **rest},
            {"op": "I", "id": "4", "ts": "2026-01-01 00:00:06", **rest},
        ],
        [{"op": "I", "id": "5", "ts": "2026-01-01 00:00:07.5", **rest}],
        [{"op": "I", "id": "6", "ts": "2026-01-01 00:00:04", **rest}],
    ]
    plain = []
    for number, records in enumerate(batches):
        (landing / f"{number}.jsonl").write_text("".join(f"{line(one)}\n" for one in records), encoding="utf-8")
        session = spark_session(pipeline)
        frazil.run(pipeline, spark=session)
        plain.append(head(session, "lake.silver.things_changes").summary.get("frazil.plain"))

    assert query(pipeline, "SELECT id FROM marts.things ORDER BY 1").rows == [(4,), (5,)]
    assert plain == [None, None, "1", None], "Arrow takes a batch of which all is newer than all truncates"
    sql = "SELECT id, second(valid_from), second(valid_to) FROM marts.things_history ORDER BY id"
    assert query(pipeline, sql).rows == [
        *((1, 1, 5), (2, 2, 5), (3, 3, 5)),
        *((4, 6, None), (5, 7, None), (6, 4, 5)),
    ]


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(100, 140))
def test_truncates_converge(seed: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del spark  # only there so that Java runs

    assert differences(tmp_path, seed, spark_session(declared(tmp_path)), monkeypatch) == []
