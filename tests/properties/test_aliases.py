"""CONVERGE where one content has two names, and KEY-CHANGE by before-images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.failing import run_fails_with

import frazil
from frazil.failpoints import FailpointReached
from frazil.spark.session import spark_session
from frazil.testing import COLUMNS, Change, current, history, oracle_changes, soft, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.testing.changes import Record

DECLARATION = """
pipeline: names
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: dms, path: ./landing, header: true{more}}}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {{name: id, type: int}}
      - {{name: ts, type: timestamp}}
      - {{name: name, type: string}}
      - {{name: qty, type: int}}
      - {{name: note, type: string}}
    marts: [{marts}]
"""


T = "2026-01-01 00:00:0"
Move = tuple[int, int | None, int]


def declare(folder: Path, marts: str, more: str = "") -> None:
    (folder / "landing").mkdir(parents=True)
    (folder / "frazil.yml").write_text(DECLARATION.format(marts=marts, more=more), encoding="utf-8")


def record(name: str, second: int = 5, op: str = "U") -> Record:
    return {
        "op": op,
        "id": "1",
        "ts": f"2026-01-01 00:00:{second:02d}",
        "name": name,
        "qty": None,
        "note": None,
    }


@pytest.mark.long
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "dies_at",
    [
        pytest.param(None, marks=pytest.mark.laws),
        "bronze.after_publish",
        pytest.param("silver.after_publish", marks=pytest.mark.laws),
    ],
)
def test_the_earliest_name_of_a_content_places_it_also_after_a_crash(
    dies_at: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONVERGE, ONCE: a tie falls as if all files had been there from the start, whatever came first."""
    declare(tmp_path, "{kind: current, name: hard}")
    pipeline, landing = frazil.load(tmp_path), tmp_path / "landing"
    first, second = write_csv([record("first")]), write_csv([record("second")])
    (landing / "20260102.csv").write_bytes(first)
    (landing / "20260103.csv").write_bytes(second)
    frazil.run(pipeline, spark=spark_session(pipeline))
    assert read(spark_session(pipeline), "hard") == [(1, "second")]

    (landing / "20260101.csv").write_bytes(second)  # known content under a name that stands earlier
    if dies_at:
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{dies_at}:raise")
        with run_fails_with(FailpointReached):
            frazil.run(pipeline, spark=spark_session(pipeline))
        monkeypatch.delenv("FRAZIL_FAILPOINT")
    frazil.run(pipeline, spark=spark_session(pipeline))

    all_at_once = oracle_changes({"20260101.csv": [record("second")], "20260102.csv": [record("first")]})
    told = current(all_at_once, tuple(COLUMNS))
    assert read(spark_session(pipeline), "hard") == expected(told) == [(1, "first")]
    assert frazil.run(pipeline, spark=spark_session(pipeline)).steps == 0


@pytest.mark.laws
@pytest.mark.usefixtures("spark")
def test_a_change_sequence_places_a_record_whatever_its_file_is_called(tmp_path: Path) -> None:
    """CONVERGE, ORDER: another name moves only the records that stand by the name of their file."""
    declare(tmp_path, "{kind: current, name: hard}", ", change_seq: seq")
    pipeline, landing = frazil.load(tmp_path), tmp_path / "landing"
    for name, seq, value in (("2.csv", "20260102", "first"), ("3.csv", "20260103", "second")):
        line = f"U,{seq},1,{T}5,{value},NULL,NULL"
        (landing / name).write_text(f"op,seq,id,ts,name,qty,note\n{line}\n", encoding="utf-8")
    frazil.run(pipeline, spark=spark_session(pipeline))

    (landing / "1.csv").write_bytes((landing / "3.csv").read_bytes())
    report = frazil.run(pipeline, spark=spark_session(pipeline))

    assert report.tables[0].marts[0].strategy == "recompute"
    assert read(spark_session(pipeline), "hard") == [(1, "second")]


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_a_changed_key_is_a_delete_and_an_upsert_at_one_order(tmp_path: Path) -> None:
    """KEY-CHANGE: the old key goes, the new one comes, also when it returns or comes late."""
    declare(
        tmp_path,
        "{kind: current, name: soft, deletes: soft}, {kind: history, name: mark, deletes: mark}",
        ", before_image_prefix: BI_",
    )
    pipeline, landing = frazil.load(tmp_path), tmp_path / "landing"
    # second, old key, new key; the move from 1 to 2 arrives after that from 2 to 3
    files: list[list[Move]] = [[(1, None, 1), (4, 2, 3)], [(2, 1, 2), (3, None, 9)]]
    for number, moves in enumerate(files):
        lines = [
            f"U,{new},2026-01-01 00:00:0{second},n{second},NULL,NULL,{old or 'NULL'}" for second, old, new in moves
        ]
        text = "\n".join(["op,id,ts,name,qty,note,BI_id", *lines, ""])
        (landing / f"{number}.csv").write_text(text, encoding="utf-8")
        frazil.run(pipeline, spark=spark_session(pipeline))

    told = key_changes(files)
    assert read(spark_session(pipeline), "soft") == expected(soft(told, tuple(COLUMNS)))
    assert read(spark_session(pipeline), "mark") == expected(history(told, tuple(COLUMNS), ["name"], "mark"))
    living = spark_session(pipeline).table("lake.marts.soft").where("NOT is_deleted").toArrow().to_pylist()
    assert expected(living) == [(3, "n4"), (9, "n3")]


def read(session: SparkSession, mart: str) -> list[tuple[int, str]]:
    rows = session.table(f"lake.marts.{mart}").toArrow().to_pylist()
    return expected(rows)


def expected(rows: Iterable[Mapping[str, Any]]) -> list[tuple[int, str]]:
    return sorted((row["id"], row["name"]) for row in rows)


def key_changes(files: list[list[Move]]) -> list[Change]:
    """Say what the moves are to the oracle."""
    changes = []
    for number, moves in enumerate(files):
        for row, (second, old, new) in enumerate(moves, start=1):
            values = {"id": new, "ts": second, "name": f"n{second}", "qty": None, "note": None}
            changes.append(Change((new,), (second,), f"1/{number}.csv/", row, False, values, second))
            if old is not None:
                changes.append(Change((old,), (second,), f"1/{number}.csv/", row, True, {}, second))
    return changes
