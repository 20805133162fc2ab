"""HANDOVER, KEY-CHANGE, MISSING-IS-NOT-NULL, TRUNCATE: the marts of a table of PostgreSQL hold what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.sources.replay import declare

import frazil
from frazil import api
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TABLE = """CREATE TABLE orders (id int PRIMARY KEY, price numeric(12,2), since timestamptz, doc text);
    ALTER TABLE orders ALTER COLUMN doc SET STORAGE EXTERNAL;
    INSERT INTO orders SELECT g, g / 3.0, now(), repeat('long ', 3000) FROM generate_series(1, 50) g"""

STEPS = (
    "UPDATE orders SET price = -1 WHERE id < 10",
    "UPDATE orders SET id = id + 1000, doc = 'moved' WHERE id BETWEEN 5 AND 15",
    "DELETE FROM orders WHERE id = 20",
    "ALTER TABLE orders ADD COLUMN extra bigint",
    "INSERT INTO orders (id, extra) VALUES (2000, 9007199254740993)",
)
SHIFT = (
    "ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (id) DEFERRABLE",
    "ALTER TABLE orders REPLICA IDENTITY FULL",
    "UPDATE orders SET id = id + 1 WHERE id BETWEEN 30 AND 50",
)
AFTER = ("TRUNCATE orders", "INSERT INTO orders VALUES (1, 1, now(), 'again')")


@pytest.mark.spark
def test_the_marts_hold_what_the_table_holds(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    declare(tmp_path, {"public.orders": "id"})
    pipeline = frazil.load(tmp_path)

    with psycopg.connect(database, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        session.execute(TABLE)
        for steps in ((), STEPS, SHIFT, AFTER):
            for step in steps:
                session.execute(step.encode())
            frazil.run(pipeline, spark=spark_session(pipeline))
            names = "id, price, doc, since" + (", extra" if steps else "")
            expected: list[Any] = session.execute(f"SELECT {names} FROM orders ORDER BY id").fetchall()
            assert query(pipeline, f"SELECT {names} FROM marts.orders ORDER BY id").rows == expected

    assert query(pipeline, "SELECT count(*) FROM marts.orders_history WHERE is_current").rows == [(1,)]
    assert query(pipeline, "SELECT count(*) FROM silver.orders_quarantine").rows == [(0,)]
    assert [finding for finding in check(pipeline) if finding.ok is False] == []

    # Key 5 became 1005: one row under two names, and Frazil landed the files itself.
    report = api.erase(pipeline, "orders", keys=["5"], spark=spark_session(pipeline))
    assert report.subjects == 2
    assert report.rewritten
    assert not report.files
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("INSERT INTO orders VALUES (5, 5, now(), 'back'), (6, 6, now(), 'new')")
    frazil.run(pipeline, spark=spark_session(pipeline))
    assert query(pipeline, "SELECT id FROM marts.orders ORDER BY id").rows == [(1,), (6,)]
    assert [finding for finding in check(pipeline) if finding.ok is False] == []


SWAP = """BEGIN; UPDATE orders SET id = -1 WHERE id = 11; UPDATE orders SET id = 11 WHERE id = 12;
    UPDATE orders SET id = 12 WHERE id = -1; COMMIT"""

MOVES = (
    ("UPDATE orders SET id = id + 100, price = -1 WHERE id <= 10",),
    (
        "UPDATE orders SET id = id + 100 WHERE id BETWEEN 101 AND 105",  # a second time, in a batch of its own
        SWAP,
        "UPDATE orders SET doc = 'short' WHERE id = 13",
        "UPDATE orders SET id = 1013 WHERE id = 13",
        "UPDATE orders SET doc = NULL WHERE id = 14",
        "UPDATE orders SET id = 1014 WHERE id = 14",
        "UPDATE orders SET id = 1015 WHERE id = 15",
        "INSERT INTO orders VALUES (15, 0, now(), 'another row')",
        "UPDATE orders SET id = 1016 WHERE id = 15",
        "DELETE FROM orders WHERE id = 1015",
        "UPDATE orders SET id = 1015 WHERE id = 16",
        "UPDATE orders SET price = 7 WHERE id = 1015",
    ),
)


@pytest.mark.spark
def test_a_row_keeps_its_long_values_under_another_key(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    declare(tmp_path, {"public.orders": "id"})
    pipeline = frazil.load(tmp_path)
    rows = "SELECT id, price, doc FROM {} ORDER BY id"

    with psycopg.connect(database, autocommit=True) as session:
        session.execute(TABLE)
        session.execute("UPDATE orders SET doc = id || doc")
        for steps in ((), *MOVES):
            for step in steps:
                session.execute(step.encode())
            frazil.run(pipeline, spark=spark_session(pipeline))
            expected: list[Any] = session.execute(rows.format("orders").encode()).fetchall()
            assert query(pipeline, rows.format("marts.orders")).rows == expected
            assert [finding for finding in check(pipeline) if finding.ok is False] == []

    versions = "SELECT id, price, doc, valid_from, valid_to FROM marts.orders_history ORDER BY 1, 4, 2"
    kept = query(pipeline, versions).rows
    assert all(doc is not None for number, _, doc, *_ in kept if number not in (14, 1014))
    frazil.run(pipeline, spark=spark_session(pipeline), rebuild=True)
    assert query(pipeline, versions).rows == kept
    assert query(pipeline, rows.format("marts.orders")).rows == expected
    assert [finding for finding in check(pipeline) if finding.ok is False] == []


ODD = """CREATE TABLE people (email text PRIMARY KEY, n int, attrs hstore); INSERT INTO people VALUES
    ('Ada@x.org', 1, 'a=>1'), ('bob@x.org', 2, NULL);
    ALTER TABLE people ALTER COLUMN email TYPE citext;
    CREATE TABLE codes (id int PRIMARY KEY, code text NOT NULL UNIQUE, v text, big text);
    ALTER TABLE codes REPLICA IDENTITY USING INDEX codes_code_key, ALTER COLUMN big SET STORAGE EXTERNAL;
    INSERT INTO codes VALUES (1, 'c1', 'a', repeat('x', 9000)), (2, 'c2', 'b', repeat('y', 9000))"""

ODD_CHANGES = """UPDATE people SET email = 'ADA@x.org', n = 5 WHERE email = 'ada@x.org';
    DELETE FROM people WHERE email = 'BOB@X.ORG'; UPDATE codes SET id = 11 WHERE code = 'c1';
    UPDATE codes SET code = 'c2b', v = 'b2' WHERE id = 2; UPDATE wide SET c300 = 'm' WHERE id = 1"""


@pytest.mark.spark
def test_keys_without_case_identities_by_index_and_wide_tables_are_those_of_the_source(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    with psycopg.connect(database, autocommit=True) as session:
        try:
            session.execute("CREATE EXTENSION citext; CREATE EXTENSION hstore")
        except psycopg.Error:
            pytest.skip("this PostgreSQL has no contrib")
        session.execute(ODD)
        columns = ", ".join(f"c{number} text" for number in range(1, 601))
        session.execute(f"CREATE TABLE wide (id int PRIMARY KEY, {columns})".encode())
        session.execute("INSERT INTO wide (id, c1, c600) VALUES (1, 'a', 'z')")
        declare(tmp_path, {"public.people": "email", "public.codes": "code", "public.wide": "id"})
        pipeline = frazil.load(tmp_path)
        frazil.run(pipeline, spark=spark_session(pipeline))
        session.execute(ODD_CHANGES)
        frazil.run(pipeline, spark=spark_session(pipeline))

    assert query(pipeline, "SELECT email, n, attrs FROM marts.people").rows == [("ADA@x.org", 5, '"a"=>"1"')]
    codes = "SELECT id, code, v, length(big) FROM marts.codes ORDER BY id"
    assert query(pipeline, codes).rows == [(2, "c2b", "b2", 9000), (11, "c1", "a", 9000)]
    assert query(pipeline, "SELECT c1, c2, c300, c600 FROM marts.wide").rows == [("a", None, "m", "z")]
    assert {one.ok for one in api.check_source(pipeline)} == {True}
