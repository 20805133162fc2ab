"""``check --source``: the reason why a key differs, for each kind of source with a table to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from tests.sources.compared import found, run
from tests.sources.replay import land

from frazil.sources.audit_log.database import audit_trigger
from frazil.sources.landed_files import LANDED
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path


PAIRS = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: pairs
    source: {kind: postgres, url: "${env:TEST_DB}", table: public.pairs, landing: ./landing}
    keys: [a, b]
    columns: [{name: a, type: int}, {name: b}, {name: qty, type: int}, {name: day, type: date},
              {name: doubled, type: int, expr: "CAST(qty AS int) * 2"}]
    marts: [{kind: current, deletes: soft}]
"""


def test_each_key_that_differs_is_explained_by_its_change(here: Path, database: str) -> None:
    (here / "frazil.yml").write_text(PAIRS)
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE pairs (a int, b text, qty int, day date, extra text, PRIMARY KEY (a, b))")
        session.execute("INSERT INTO pairs SELECT g, 'k|' || g, g, '2024-01-01' FROM generate_series(1, 40) g")
        pipeline = run(here)
        # Deletes that are applied are no difference; what is quarantined is one.
        session.execute("DELETE FROM pairs WHERE a = 40")
        session.execute("UPDATE pairs SET day = 'infinity' WHERE a = 1")
        run(here)
        # A landing file that somebody takes away before it is read.
        before = {*(here / "landing").rglob("*.parquet")}
        session.execute("UPDATE pairs SET qty = -1 WHERE a = 2")
        session.execute("DELETE FROM pairs WHERE a = 3")
        session.execute("INSERT INTO pairs VALUES (100, 'new', 1, NULL)")
        land(here)
        [lost] = {*(here / "landing").rglob("*.parquet")} - before
        lost.unlink()
        assert found(pipeline).ok is False
        # Of an older version, which noted no names, a run does not know that there was such a file.
        (lost.parent / LANDED).unlink()
        # What somebody writes into the mart.
        spark = spark_session(pipeline)
        spark.sql("UPDATE lake.marts.pairs SET qty = 77 WHERE a = 4")
        spark.sql("DELETE FROM lake.marts.pairs WHERE a = 5")
        # Landed and not taken; neither landed.
        session.execute("UPDATE pairs SET qty = -6 WHERE a = 6")
        session.execute("DELETE FROM pairs WHERE a = 7")
        land(here)
        session.execute("UPDATE pairs SET b = 'moved' WHERE a = 8")
        session.execute("DELETE FROM pairs WHERE a = 9")

        finding = found(pipeline)
        why = {one.key: (one.why, one.detail) for one in finding.differences}
        assert {key: one for key, (one, _) in why.items()} == {
            "a=1, b=k|1": "quarantined",
            "a=2, b=k|2": "lost",
            "a=3, b=k|3": "lost",
            "a=100, b=new": "lost",
            "a=4, b=k|4": "written by somebody else",
            "a=5, b=k|5": "written by somebody else",
            "a=6, b=k|6": "in flight",
            "a=7, b=k|7": "in flight",
            "a=8, b=k|8": "in flight",
            "a=8, b=moved": "in flight",
            "a=9, b=k|9": "in flight",
        }
        assert finding.ok is False
        assert "not compared: doubled; only there: extra" in finding.detail
        assert "day is 2024-01-01 here, infinity there" in why["a=1, b=k|1"][1]
        assert why["a=2, b=k|2"][1] == "qty is 2 here, -1 there"
        assert why["a=3, b=k|3"][1] == "not at the source"
        assert why["a=6, b=k|6"][1].startswith("landing/public.pairs/")
        assert why["a=8, b=moved"][1] == "not captured yet · not here"

        # All at once: a truncate that is not captured explains what it took away.
        session.execute("TRUNCATE pairs")
        truncated = found(pipeline)
        assert "written by somebody else" in truncated.detail
        assert "lost" not in truncated.detail


LOGGED = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: audit_log, url: "${env:TEST_DB}", log: public.log, xid: audit_txid, old_data: old_data,
             table: public.orders, landing: ./landing}
    keys: [id]
    columns: [{name: id, type: bigint}, {name: price, type: "decimal(12,2)"}, {name: at, type: timestamp}, {name: note}]
"""


def test_a_table_is_compared_with_what_its_audit_log_told(here: Path, database: str) -> None:
    (here / "frazil.yml").write_text(LOGGED)
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id bigint PRIMARY KEY, price numeric, at timestamptz, note char(3))")
        session.execute(audit_trigger("public.log", ["public.orders"]).encode())
        session.execute("INSERT INTO orders SELECT g, g / 4.0, now(), 'ab' FROM generate_series(1, 30) g")
        pipeline = run(here)
        same = found(pipeline)
        assert same.ok is True, same
        assert "not compared" not in same.detail

        session.execute("ALTER TABLE orders DISABLE TRIGGER USER")
        session.execute("UPDATE orders SET price = 5.5 WHERE id = 3")
        session.execute("ALTER TABLE orders ENABLE TRIGGER USER")
        session.execute("UPDATE orders SET id = 104 WHERE id = 4")
        session.execute("DELETE FROM orders WHERE id = 5")
        finding = found(pipeline)
        assert {one.key: one.why for one in finding.differences} == {
            "id=3": "lost",
            "id=4": "in flight",
            "id=104": "in flight",
            "id=5": "in flight",
        }
        run(here)
        assert [one.key for one in found(pipeline).differences] == ["id=3"]


HANDED_OVER = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source:
      kind: handover
      snapshots: {kind: snapshot, url: "${env:TEST_DB}", table: public.orders, every_minutes: 600}
      changes: CHANGES
      landing: ./copies
    keys: [id]
    columns: [{name: id, type: bigint}, {name: price, type: "decimal(12,2)"}, {name: note}]
"""
_OF_A_LOG = """{kind: audit_log, url: "${env:TEST_DB}", log: public.log, xid: audit_txid, table: public.orders,
        landing: ./landing}"""


def test_a_handover_is_compared_with_the_table_of_its_log(here: Path, database: str) -> None:
    """The rows from before the log came with a snapshot: changes in both are there once."""
    (here / "frazil.yml").write_text(HANDED_OVER.replace("CHANGES", _OF_A_LOG))
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id bigint PRIMARY KEY, price numeric, note text)")
        session.execute("INSERT INTO orders SELECT g, g / 4.0, 'ab' FROM generate_series(1, 30) g")
        session.execute(audit_trigger("public.log", ["public.orders"]).encode())
        session.execute("UPDATE orders SET note = 'x' WHERE id < 4")
        session.execute("DELETE FROM orders WHERE id = 30")
        pipeline = run(here)
        same = found(pipeline)
        assert same.ok is True, same
        assert "29 rows here, 29 in public.orders of ${env:TEST_DB} at " in same.detail

        session.execute("ALTER TABLE orders DISABLE TRIGGER USER")
        session.execute("UPDATE orders SET price = 5.5 WHERE id = 3")
        session.execute("ALTER TABLE orders ENABLE TRIGGER USER")
        session.execute("INSERT INTO orders VALUES (104)")
        session.execute("DELETE FROM orders WHERE id = 5")
        finding = found(pipeline)
        assert {one.key: one.why for one in finding.differences} == {
            "id=3": "lost",
            "id=104": "in flight",
            "id=5": "in flight",
        }
        assert finding.ok is False
        run(here)
        assert [one.key for one in found(pipeline).differences] == ["id=3"]


def test_a_handover_of_files_is_compared_with_the_table_of_its_snapshots(here: Path, database: str) -> None:
    (here / "changes").mkdir()
    changes = "{kind: debezium, path: ./changes, table: public.orders, settle_seconds: 0, encodings: {price: text}}"
    (here / "frazil.yml").write_text(HANDED_OVER.replace("CHANGES", changes))
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id bigint PRIMARY KEY, price numeric, note text)")
        session.execute("INSERT INTO orders SELECT g, g / 4.0, 'ab' FROM generate_series(1, 30) g")
        pipeline = run(here)
        assert found(pipeline).ok is True

        session.execute("UPDATE orders SET note = 'y' WHERE id < 3")
        line = '{"op": "u", "after": {"id": 1, "price": "0.25", "note": "y"}, "source": {"schema": "public", '
        line += '"table": "orders", "lsn": 8, "ts_ms": 4102444800000}}\n'
        (here / "changes" / "1.jsonl").write_text(line)
        finding = found(pipeline)
    assert {one.key: one.why for one in finding.differences} == {"id=1": "in flight", "id=2": "unknown"}
    assert finding.ok is None
