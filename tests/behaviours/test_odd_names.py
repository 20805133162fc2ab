"""Columns may be called anything that a database lets them be called, also what a mart calls its own."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.properties.strategies import go_by

import frazil
from frazil.plan.checks import name_problems
from frazil.runner.maintain import maintain
from frazil.runner.options import RunOptions
from frazil.serve.check.check import check
from frazil.serve.key import explain_key
from frazil.serve.query.query import query
from frazil.silver.contract import settle
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frazil.plan.policy import Strategy

KEY, WHEN, VALUE = "the `{key}`.no 1", "sélect", "o'clock\\n; --"

DECLARATION = f"""
pipeline: odd
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: dms, path: ./landing, header: true}}
    keys: ["{KEY}"]
    sequence_by: [{WHEN}]
    columns:
      - {{name: "{KEY}", type: int}}
      - {{name: {WHEN}, type: timestamp}}
      - {{name: "{VALUE.replace(chr(92), chr(92) * 2)}"}}
    marts:
      - {{kind: current, name: soft, deletes: soft, live_view: living, sort_by: ["{KEY}"]}}
      - {{kind: history, name: close}}
"""


@pytest.mark.usefixtures("spark")
def test_a_table_whose_columns_have_odd_names_goes_all_the_way(tmp_path: Path) -> None:
    """DELETES, LATE, HISTORY: with names that want quoting in SQL, in two runs."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)
    runs = [["I,1,2026-01-01 00:00:01,a", "I,2,2026-01-01 00:00:01,x"], ["U,1,2026-01-01 00:00:03,c"]]
    runs[1] += ["U,1,2026-01-01 00:00:02,b", "D,2,2026-01-01 00:00:02,NULL"]
    for number, lines in enumerate(runs):
        text = "\n".join([f'op,{KEY},{WHEN},"{VALUE}"', *lines, ""])
        (tmp_path / "landing" / f"{number}.csv").write_text(text, encoding="utf-8")
        frazil.run(pipeline, spark=session)

    soft = session.table("lake.marts.soft").toArrow().to_pylist()
    assert sorted((row[KEY], row[VALUE], row["is_deleted"]) for row in soft) == [(1, "c", False), (2, "x", True)]
    assert session.table("lake.marts.living").toArrow().column(KEY).to_pylist() == [1]
    close = session.table("lake.marts.close").toArrow().to_pylist()
    assert sorted((row[KEY], row[VALUE]) for row in close) == [(1, "a"), (1, "b"), (1, "c"), (2, "x")]


NAMES = (
    *(
        "a`b",
        "``",
        "`v`",
        "it's",
        'say "x"',
        "dot.ted",
        "two words",
        "a;b",
        "a--b",
        "-- c",
        "/*c*/",
        "'; drop table x; --",
    ),
    *(
        "emoji 😀",
        "sélect",
        "Übergröße",
        "日本語",
        "İ",
        "ﬀ",
        "back\\slash",
        "a\\nb",
        "(paren)",
        "[1]",
        "{}",
        "{{ y }}",
        "<x>",
    ),
    *(
        "a,b",
        "a=b",
        "a/b",
        "%s",
        "${x}",
        "${spark.sql.warehouse.dir}",
        "$",
        "#hash",
        "@at",
        "*x",
        "-",
        "_",
        "__x",
        "1",
        "1a",
    ),
    *("select", "table", "null", "true", "key", "value", "position", "order by", "current_date", "user", "x" * 200),
)
"""Names of source fields, each of which a value passes through."""

ODD_KEY, ODD_TIME, ODD_SORT = "ke`y.'\"; -- ${x}", "ts`", "a`b c"


def odd_pipeline(folder: Path, **table: Any) -> frazil.Pipeline:
    """Declare a table of odd names with all marts, a view and an aggregate."""
    (folder / "landing").mkdir(exist_ok=True)
    declared = {
        "name": "things",
        "source": {"kind": "dms", "path": "./landing", "header": True},
        "keys": [ODD_KEY],
        "sequence_by": [ODD_TIME],
        "columns": [{"name": ODD_KEY, "type": "int"}, {"name": ODD_TIME, "type": "timestamp"}, {"name": ODD_SORT}, "*"],
        "marts": [
            {"kind": "current", "name": "hard", "sort_by": [ODD_SORT]},
            {"kind": "current", "name": "soft", "deletes": "soft", "live_view": "living"},
            {"kind": "history", "name": "close", "track_history_columns": ["a`b", "it's"]},
            {"kind": "history", "name": "mark", "deletes": "mark"},
        ],
        **table,
    }
    gold = [{"name": "sums", "sql": "select `a``b` as x, `dot.ted`, count(*) as n from {{ hard }} group by all"}]
    text = {"pipeline": "odd", "lake": {"warehouse": "./lake"}, "tables": [declared], "gold": [] if table else gold}
    (folder / "frazil.yml").write_text(json.dumps(text), encoding="utf-8")
    return frazil.load(folder)


def land(folder: Path, name: str, fields: Sequence[str], *records: str) -> None:
    """Put a file into the landing folder; the last text of a record fills all fields that follow it."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(fields)
    for record in records:
        values = record.split(",")
        lines.writerow([*values, *(f"{values[-1]}{number}" for number in range(len(fields) - len(values)))])
    (folder / "landing" / name).write_text(text.getvalue(), encoding="utf-8")


@pytest.mark.usefixtures("spark")
@pytest.mark.laws
@pytest.mark.parametrize("strategy", ["row_delta", "delete_append"])
def test_a_value_passes_through_a_field_of_any_name(strategy: Strategy, tmp_path: Path) -> None:
    """CONVERGE, AGREE: all tables, the view, the aggregate, check, key, query; folded in memory and by Spark."""
    options = RunOptions(policy=go_by(strategy))
    pipeline = odd_pipeline(tmp_path)
    fields = ("op", ODD_KEY, ODD_TIME, ODD_SORT, *NAMES)
    at = "2026-01-01 00:00:0"
    session = spark_session(pipeline)
    land(tmp_path, "1.csv", fields, f"I,1,{at}1,a", f"I,2,{at}1,x", f"I,${{x}},{at}1,x")
    frazil.run(pipeline, spark=session, options=options)
    land(tmp_path, "2.csv", fields, f"U,1,{at}3,c", f"U,1,{at}2,b", f"D,2,{at}2,z")
    frazil.run(pipeline, spark=session, options=options)

    [row] = session.table("lake.marts.hard").drop("_cdc_position", "_cdc_row").toArrow().to_pylist()
    assert tuple(row) == (ODD_KEY, ODD_TIME, ODD_SORT, *NAMES)
    assert [row[name] for name in NAMES] == [f"c{number}" for number in range(len(NAMES))]
    [living] = session.table("lake.marts.living").toArrow().to_pylist()
    assert {name: living[name] for name in row} == row
    assert [finding for finding in check(pipeline) if finding.ok is not True] == []
    assert len(explain_key(pipeline, "things", ["1"]).records) == 3
    asked = query(pipeline, 'select "a`b", "dot.ted", "say ""x""" from marts.hard').rows
    assert [tuple(found) for found in asked] == [tuple(row[name] for name in ("a`b", "dot.ted", 'say "x"'))]
    [summed] = session.table("lake.gold.sums").toArrow().to_pylist()
    assert summed == {"x": row["a`b"], "dot.ted": row["dot.ted"], "n": 1}
    [bad] = session.table("lake.silver.things_quarantine").toArrow().to_pylist()
    assert bad["reason"] == "not exactly an int: ${x}"


@pytest.mark.laws
@pytest.mark.usefixtures("spark")
def test_partitions_and_statistics_may_be_of_columns_of_any_name(tmp_path: Path) -> None:
    key = ODD_KEY.replace("`", "``")
    partitions = [f"bucket(4, `{key}`)", "truncate(2, two words)", "`a``b`"]
    pipeline = odd_pipeline(tmp_path, marts=[{"kind": "current", "name": "hard", "partition_by": partitions}])
    session = spark_session(pipeline)
    land(tmp_path, "1.csv", ("op", ODD_KEY, ODD_TIME, ODD_SORT, *NAMES), "I,1,2026-01-01 00:00:01,a")

    frazil.run(pipeline, spark=session)
    maintain(pipeline, session)

    assert session.table("lake.marts.hard").count() == 1
    assert len(session.table("lake.marts.hard.partitions").select("partition.*").columns) == 3


MARTS = {
    "hard": {"kind": "current", "name": "hard"},
    "soft": {"kind": "current", "name": "soft", "deletes": "soft", "live_view": "living"},
    "close": {"kind": "history", "name": "close"},
    "mark": {"kind": "history", "name": "mark", "deletes": "mark"},
}


ADDED = ("is_deleted", "Deleted_At", "valid_from", "VALID_TO", "is_current", "source_is_deleted")
"""Fields that an application has, named like columns that marts add."""


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_fields_named_like_a_mart_s_own_columns_come_under_another_name(tmp_path: Path) -> None:
    """EVOLVE, AGREE: in every mart, from the first file on or from a later one."""
    columns = [{"name": ODD_KEY, "type": "int"}, {"name": ODD_TIME, "type": "timestamp"}, "*"]
    pipeline = odd_pipeline(tmp_path, columns=columns, marts=[*MARTS.values()])
    session = spark_session(pipeline)
    at = "2026-01-01 00:00:0"
    land(tmp_path, "1.csv", ("op", ODD_KEY, ODD_TIME, ADDED[0]), f"I,1,{at}1,yes", f"I,2,{at}1,no")
    frazil.run(pipeline, spark=session)
    land(tmp_path, "2.csv", ("op", ODD_KEY, ODD_TIME, *ADDED), f"U,1,{at}2,v", f"D,2,{at}2,w")

    frazil.run(pipeline, spark=session)

    renamed = tuple(f"source_{name}" for name in ADDED)
    for mart in MARTS:
        assert set(session.table(f"lake.marts.{mart}").columns) >= {ODD_KEY, ODD_TIME, *renamed}
    [row] = session.table("lake.marts.hard").toArrow().to_pylist()
    assert [row[name] for name in renamed] == ["v", "v0", "v1", "v2", "v3", "v4"]
    soft = {row[ODD_KEY]: row for row in session.table("lake.marts.soft").toArrow().to_pylist()}
    assert [soft[2][name] for name in ("is_deleted", "source_is_deleted", "source_Deleted_At")] == [True, "no", None]
    assert [finding for finding in check(pipeline) if finding.ok is not True] == []
    assert len(explain_key(pipeline, "things", ["1"]).records) == 2


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_a_mart_that_adds_columns_renames_a_field_that_has_been_there(tmp_path: Path) -> None:
    """CONVERGE: a mart more is a declaration more, and all tables become what it says."""
    columns = [{"name": ODD_KEY, "type": "int"}, {"name": ODD_TIME, "type": "timestamp"}, "*"]
    pipeline = odd_pipeline(tmp_path, columns=columns, marts=[MARTS["hard"]])
    session = spark_session(pipeline)
    land(tmp_path, "1.csv", ("op", ODD_KEY, ODD_TIME, "is_deleted"), "I,1,2026-01-01 00:00:01,yes")
    frazil.run(pipeline, spark=session)
    [plain] = session.table("lake.marts.hard").toArrow().to_pylist()
    more = odd_pipeline(tmp_path, columns=columns, marts=[MARTS["hard"], MARTS["close"]])

    frazil.run(more, spark=session)

    assert plain["is_deleted"] == "yes"
    for mart in ("hard", "close"):
        [row] = session.table(f"lake.marts.{mart}").toArrow().to_pylist()
        assert row["source_is_deleted"] == "yes"
    assert row["is_deleted"] is False


def test_a_column_declared_for_an_odd_field_replaces_it(tmp_path: Path) -> None:
    columns = [{"name": "id", "type": "int"}, {"name": "source_is_deleted", "expr": "is_deleted"}, "*"]
    pipeline = odd_pipeline(tmp_path, keys=["id"], sequence_by=[], columns=columns, marts=[MARTS["soft"]])

    contract = settle(pipeline.tables[0], {"op": "string", "id": "string", "is_deleted": "string", "v": "string"})

    assert contract.names == ("id", "source_is_deleted", "v")


def test_a_key_that_gets_another_name_has_a_hint(tmp_path: Path) -> None:
    pipeline = odd_pipeline(tmp_path, keys=["is_deleted"], sequence_by=[], columns=["*"], marts=[MARTS["soft"]])

    contract = settle(pipeline.tables[0], {"op": "string", "is_deleted": "string"})
    [problem] = name_problems(pipeline, {"things": contract})

    assert problem.hint == "a field of this name is called 'source_is_deleted'"
