"""NOTHING-LOST: invalid records are kept with their reason, and a limit stops the run before silver."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.lake.refs import head
from frazil.runner.limits.batch_limits import TooManyBadRowsError
from frazil.spark.session import spark_session
from frazil.testing import draw

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DECLARATION = """
pipeline: bad
lake: {{warehouse: ./lake}}
tables:
  - &all
    name: free
    source: {{kind: dms, path: ./landing, header: true}}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {{name: id, type: int}}
      - {{name: ts, type: timestamp}}
      - {{name: qty, type: int}}
      - {{name: name, nullable: false}}
  - {{<<: *all, name: limited, max_bad_rows: {rows}}}
  - {{<<: *all, name: shared, max_bad_fraction: {fraction}}}
"""

RECORDS = """\
op,id,ts,qty,name
I,1,2026-01-01 00:00:01,1,ada
I,2,2026-01-01 00:00:01,one,bob
I,x,2026-01-01 00:00:01,1,bob
I,NULL,2026-01-01 00:00:01,1,bob
I,3,now,1,bob
I,3,NULL,1,bob
X,3,2026-01-01 00:00:01,1,bob
,3,2026-01-01 00:00:01,1,bob
I,3,2026-01-01 00:00:01,1,NULL
I,3,2026-01-01 00:00:01,1
D,4,2026-01-01 00:00:01,none,NULL
D,4,today,NULL,NULL
"""

REASONS = """
 2 | cast          | qty  | not exactly an int: one
 3 | cast          | id   | not exactly an int: x
 4 | null_key      | id   | id is NULL
 5 | cast          | ts   | not exactly a timestamp: now
 6 | null_sequence | ts   | ts is NULL
 7 | op            | -    | unknown op X
 8 | op            | -    | unknown op NULL
 9 | not_null      | name | name is NULL
10 | record        | -    | too_few_fields: 4, expected 5
12 | cast          | ts   | not exactly a timestamp: today
"""


def declare(folder: Path, rows: int, fraction: float) -> frazil.Pipeline:
    (folder / "frazil.yml").write_text(DECLARATION.format(rows=rows, fraction=fraction), encoding="utf-8")
    return frazil.load(folder)


@pytest.mark.long
def test_bad_records_have_reasons_and_a_limit_stops_the_run_until_it_is_raised(
    spark: SparkSession, tmp_path: Path
) -> None:
    """NOTHING-LOST: rule, reason and record; exit code 5, and nothing of the batch is visible past bronze."""
    del spark  # its Java runs the session of this lake
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.csv").write_text(RECORDS, encoding="utf-8")
    pipeline = declare(tmp_path, 9, 0.8)
    session = spark_session(pipeline)

    with pytest.raises(frazil.RunFailedError, match="10 of 12 records of batch 1 are bad") as stopped:
        frazil.run(pipeline, spark=session)

    assert stopped.value.exit_code == 5
    assert [type(error) for error in stopped.value.errors] == [TooManyBadRowsError] * 2
    rows = session.table("lake.silver.free_quarantine").toArrow().to_pylist()
    rows.sort(key=lambda row: row["_cdc_row"])
    assert lines(draw(rows, ("_cdc_row", "rule", "column", "reason"))) == lines(REASONS)
    assert {row["_cdc_file"] for row in rows} == {"landing/1.csv"}
    assert '"qty":"one"' in rows[0]["raw"]
    for table in ("limited", "shared"):
        assert session.table(f"lake.bronze.{table}").count() == 13
        assert head(session, f"lake.silver.{table}_changes").batch == 0
        assert head(session, f"lake.silver.{table}_quarantine").batch == 0
        assert head(session, f"lake.marts.{table}").batch == 0

    frazil.run(declare(tmp_path, 10, 0.9), spark=session)

    for table in ("free", "limited", "shared"):
        assert session.table(f"lake.silver.{table}_quarantine").count() == 10
        assert [row["id"] for row in session.table(f"lake.marts.{table}").toArrow().to_pylist()] == [1]


@pytest.mark.long
def test_a_limit_is_a_batch_s_also_when_all_batches_are_taken_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """NOTHING-LOST, CONVERGE: a rebuild is refused only for a batch that is too bad by itself."""
    del spark  # as above
    (tmp_path / "landing").mkdir()
    text = DECLARATION.format(rows=1, fraction=0.5).replace("free", "first", 1)
    (tmp_path / "frazil.yml").write_text(text.replace("    name: first", "    name: first\n    max_bad_rows: 1"))
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)
    for number in range(2):
        lines = [f"I,{number},2026-01-01 00:00:01,1,ada", f"I,{number},2026-01-01 00:00:01,one,ada"]
        (tmp_path / "landing" / f"{number}.csv").write_text("\n".join(["op,id,ts,qty,name", *lines, ""]))
        frazil.run(pipeline, select=["first"], spark=session)

    frazil.run(pipeline, select=["first"], spark=session, rebuild=True)

    assert session.table("lake.silver.first_quarantine").count() == 2
    assert sorted(row["id"] for row in session.table("lake.marts.first").toArrow().to_pylist()) == [0, 1]


@pytest.mark.long
@pytest.mark.parametrize(
    "rebuild", [False, pytest.param(True, marks=pytest.mark.laws)], ids=["batch by batch", "made anew"]
)
def test_a_bad_record_shows_the_fields_it_came_with_whenever_others_came(
    spark: SparkSession, tmp_path: Path, *, rebuild: bool
) -> None:
    """CONVERGE: a field that comes later is one that earlier records lack; it is neither NULL nor held against them."""
    del spark  # as above
    every = DECLARATION.format(rows=9, fraction=1.0).replace("nullable: false}", "nullable: false}\n      - '*'")
    every = every.replace("name: free", "name: free\n    max_bad_fraction: 1")
    (tmp_path / "frazil.yml").write_text(every, encoding="utf-8")
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)
    (tmp_path / "landing").mkdir()
    for number, fields in enumerate(["id,ts,qty,name", "op,id,ts,qty,name", "op,id,ts,qty,name,note"]):
        name = f"{'LOAD' if number == 0 else ''}{number}.csv"
        values = {
            "op": "I",
            "id": f"{number}",
            "ts": "2026-01-01 00:00:01",
            "qty": "one",
            "name": "ada",
            "note": "NULL",
        }
        line = ",".join(values[field] for field in fields.split(","))
        (tmp_path / "landing" / name).write_text(f"{fields}\n{line}\n", encoding="utf-8")
        frazil.run(pipeline, select=["free"], spark=session)

    frazil.run(pipeline, select=["free"], spark=session, rebuild=rebuild)
    frazil.run(pipeline, select=["shared"], spark=session)

    fresh, raws = (
        sorted(str(row["raw"]) for row in session.table(f"lake.silver.{name}_quarantine").toArrow().to_pylist())
        for name in ("shared", "free")
    )
    assert raws == fresh
    assert sorted(sorted(json.loads(raw)) for raw in raws) == [
        ["id", "name", "note", "op", "qty", "ts"],
        ["id", "name", "op", "qty", "ts"],
        ["id", "name", "op", "qty", "ts"],
    ]


def lines(drawing: str) -> list[str]:
    return [" ".join(line.split()) for line in drawing.strip().splitlines()]
