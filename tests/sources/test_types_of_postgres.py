"""Each row of docs/types.md on a real server: type and value, by each way into the lake."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest

import frazil
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.sources.audit_log.database import audit_trigger
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text(encoding="utf-8")
"""Rows of two cells say what a type becomes, rows of four what a value does."""

TYPES = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE))
VALUES = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
DECLARATIONS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

MADE = """CREATE TYPE mood AS ENUM ('happy', 'so so'); CREATE DOMAIN price AS numeric(10,2);
    CREATE TYPE pair AS (a int, b text); SET timezone = 'UTC'; SET extra_float_digits = 3"""
STREAMED = 1000
"""Rows that come by the stream have ids greater than this."""

IN_DUCKDB = {
    "INTEGER": "int",
    "VARCHAR": "string",
    "BLOB": "binary",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}

DECLARATION = """
pipeline: types
lake: {{warehouse: ./lake}}
tables:
  - name: streamed
    source: {{kind: postgres, url: "${{env:TEST_DB}}", table: t, landing: ./landing/postgres}}
    keys: [id]
    max_bad_fraction: 1
    marts: [{{kind: current}}]
  - name: dumped
    source: {{kind: snapshot, url: "${{env:TEST_DB}}", table: t}}
    keys: [id]
    max_bad_fraction: 1
    marts: [{{kind: current}}]
  - name: logged
    source:
      {{kind: audit_log, url: "${{env:TEST_DB}}", log: audit.log, table: t, landing: ./landing/log, xid: audit_txid}}
    keys: [id]
    max_bad_fraction: 1
    columns:
      - {{name: id, type: int}}
      {columns}
    marts: [{{kind: current}}]
"""


def names() -> dict[str, str]:
    """Type -> name of its column."""
    return {kind: f"c{number:02}" for number, kind in enumerate(TYPES)}


def shown(value: Any, kind: str) -> str:
    """Write a value of a column of some type as the page does."""
    if kind == "float":
        value = np.float32(value) if value is not None else None
    match value:
        case None:
            return "NULL"
        case "" | b"":
            return "empty"
        case bool():
            text = f"{value}".lower()
        case float() | np.floating():
            text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), str(value))
        case bytes():
            text = value.hex()
        case dt.datetime():
            text = value.replace(tzinfo=None).isoformat(" ", "microseconds") + ("+00" if value.tzinfo else "")
        case Decimal():
            text = f"{value:f}"
        case _:
            text = f"{value}".replace("\n", "\\n")
    return f"`{text}`"


def insert(session: Any, above: int) -> None:
    for number, (kind, value, *_) in enumerate(VALUES, start=above + 1):
        text = f"INSERT INTO t (id, {names()[kind]}) VALUES ({number}, CAST({value} AS {kind}))"
        session.execute(text.encode())


def found(pipeline: Any, table: str, above: int) -> list[str]:
    """Return what a mart has for each value of the page, in order."""
    columns = names()
    rows = {
        row[0]: dict(zip(columns.values(), row[1:], strict=True))
        for row in query(pipeline, f"SELECT id, {', '.join(columns.values())} FROM marts.{table}").rows
    }
    return [
        shown(rows[number][columns[kind]], TYPES[kind]) if number in rows else "quarantine"
        for number, (kind, *_) in enumerate(VALUES, start=above + 1)
    ]


@pytest.fixture(params=[pytest.param("database", marks=pytest.mark.laws), "newest_database"])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    url: str = request.getfixturevalue(request.param)
    monkeypatch.setenv("TEST_DB", url)
    return url


@pytest.mark.server
@pytest.mark.spark
def test_every_value_of_every_type_arrives_as_the_page_says(address: str, spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    columns = (f"- {{name: {name}, type: '{TYPES[kind]}'}}" for kind, name in names().items())
    (tmp_path / "frazil.yml").write_text(DECLARATION.format(columns="\n      ".join(columns)))
    pipeline = frazil.load(tmp_path)
    with psycopg.connect(address, autocommit=True) as session:
        session.execute(MADE)
        made = ", ".join(f"{name} {kind}" for kind, name in names().items())
        session.execute(f"CREATE TABLE t (id int PRIMARY KEY, {made})".encode())
        session.execute(audit_trigger("audit.log", ["public.t"]).encode())
        for above in (0, STREAMED):
            insert(session, above)
            frazil.run(pipeline, spark=spark_session(pipeline))

    for table in ("streamed", "dumped", "logged"):
        types = {name: kind for name, kind, *_ in query(pipeline, f"DESCRIBE marts.{table}").rows}
        assert {kind: IN_DUCKDB.get(types[name], types[name].lower()) for kind, name in names().items()} == TYPES
    said = {"streamed": [row[2] for row in VALUES], "dumped": [row[2] for row in VALUES]}
    said["logged"] = [said["streamed"][at] if row[3] == "the same" else row[3] for at, row in enumerate(VALUES)]
    for table, expected in said.items():
        for above in (0, STREAMED):
            got = found(pipeline, table, above)
            differing = [
                (kind, value, want, have)
                for (kind, value, *_), want, have in zip(VALUES, expected, got, strict=True)
                if want != have
            ]
            assert differing == [], (table, above)
    assert [finding for finding in check(pipeline) if finding.ok is False] == []


@pytest.mark.server
@pytest.mark.spark
def test_a_declaration_says_what_becomes_of_values_that_a_type_does_not_have(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("SHOP_DB", database)
    [declaration] = [text for text in DECLARATIONS if "members" in text]
    (tmp_path / "frazil.yml").write_text(declaration)
    pipeline = frazil.load(tmp_path)
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE members (id int PRIMARY KEY, founded date, member_until timestamptz)")
        session.execute("INSERT INTO members VALUES (1, '0044-03-15 BC', 'infinity'), (2, '2026-01-01', '-infinity')")
        frazil.run(pipeline, spark=spark_session(pipeline))

    assert query(pipeline, "SELECT id, founded, member_until FROM marts.members").rows == [(1, "0044-03-15 BC", None)]
    assert query(pipeline, "SELECT count(*) FROM silver.members_quarantine").rows == [(1,)]


@pytest.mark.server
@pytest.mark.spark
def test_arrays_can_be_declared_by_each_way_into_the_lake(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("SHOP_DB", database)
    [declaration] = [text for text in DECLARATIONS if "lists" in text]
    ways = {
        "lists": '{kind: postgres, url: "${env:SHOP_DB}", table: public.lists, landing: ./landing/postgres}',
        "dumped": '{kind: snapshot, url: "${env:SHOP_DB}", table: public.lists, landing: ./landing/dumps}',
        "logged": '{kind: audit_log, url: "${env:SHOP_DB}", log: audit.log, table: public.lists, '
        "landing: ./landing/log, xid: audit_txid}",
    }
    before, table = declaration.split("tables:\n")
    tables = [table.replace("name: lists", f"name: {name}").replace(ways["lists"], way) for name, way in ways.items()]
    (tmp_path / "frazil.yml").write_text(f"{before}tables:\n{''.join(tables)}")
    pipeline = frazil.load(tmp_path)
    values = """'{1,NULL,-3}', '{"a,b",NULL,"NULL","q\\"\\\\"," ",plain,""}',
        '{2024-02-29 12:34:56.5+02}', '{{1.5,NULL},{0,-2}}'"""
    with psycopg.connect(database, autocommit=True) as session:
        session.execute(
            "CREATE TABLE lists (id int PRIMARY KEY, sizes int[], tags text[], moments timestamptz[], "
            "grid numeric(5,2)[][])"
        )
        session.execute(audit_trigger("audit.log", ["public.lists"]).encode())
        for first in (1, 11):
            session.execute(f"INSERT INTO lists VALUES ({first}, {values})".encode())
            session.execute(
                f"INSERT INTO lists VALUES ({first + 1}, '{{}}', E'{{\"two\\nlines\"}}', NULL, '{{}}')".encode()
            )
            session.execute(f"INSERT INTO lists (id, sizes) VALUES ({first + 2}, '{{{{1,2}},{{3,4}}}}')".encode())
            frazil.run(pipeline, spark=spark_session(pipeline))

    for name in ways:
        rows = query(pipeline, f"SELECT * FROM marts.{name} ORDER BY id").rows
        whole, two_lines = ["a,b", None, "NULL", 'q"\\', " ", "plain", ""], ["two\nlines"]
        assert [row[:3] for row in rows] == [
            (1, [1, None, -3], whole),
            (2, [], two_lines),
            (11, [1, None, -3], whole),
            (12, [], two_lines),
        ], name
        moment = dt.datetime(2024, 2, 29, 10, 34, 56, 500000, dt.UTC)
        assert [row[3:5] for row in rows[:2]] == [
            ([moment], [[Decimal("1.50"), None], [Decimal("0.00"), Decimal("-2.00")]]),
            (None, []),
        ], name
        bad = query(pipeline, f"SELECT reason FROM silver.{name}_quarantine").rows
        assert len(bad) == 2, (name, bad)
        assert all("not exactly an array: $[0] is " in reason for (reason,) in bad)
    assert [finding for finding in check(pipeline) if finding.ok is False] == []
