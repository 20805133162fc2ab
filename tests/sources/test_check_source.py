"""``check --source``: a mart against the table itself, and against a dump: what differs, and what explains it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.hostile.situation import command
from tests.sources.replay import declare, land
from tests.sources.writers import KEYS, TABLES, Writers

import frazil
from frazil import api
from frazil.lake.session import spark_session
from frazil.serve.compare import NothingToCompareError
from frazil.sources.audit_log.trigger import audit_trigger
from frazil.sources.comparison import Compared
from frazil.sources.kinds import rows_at_source
from frazil.storage.base import MissingFolderError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.hostile.situation import Said

    from frazil.serve.finding import Finding
    from frazil.sources.comparison import SourceRows
    from frazil.spec import Pipeline

TYPES = {
    "flag": ("boolean", ("true", "false")),
    "small": ("smallint", ("-32768", "0", "7")),
    "whole": ("int", ("-2147483648", "100", "2147483647")),
    "big": ("bigint", ("9007199254740993", "-9223372036854775808", "1000")),
    "price": ("numeric(12,2)", ("0.00", "-0.50", "100.00", "1234567890.12", "10")),
    "share": ("numeric(2,2)", ("0.5", "-0.05", "0")),
    "count": ("numeric(38,0)", ("99999999999999999999999999999999999999", "100", "0")),
    "loose": ("numeric", ("1.50", "1e30", "0.000")),
    "single": ("real", ("0.1", "-0", "1e30", "NaN", "Infinity", "1e-40")),
    "twice": ("double precision", ("0.1", "-0", "1e15", "1e300", "NaN", "-Infinity", "5e-324", "123456789.123456789")),
    "name": ("text", ("''", "'|'", "'a|1:b'", "'0:'", "'añ👩‍👩‍👧 ñ'", "E'tab\\tline\\n'", "'NULL'")),
    "code": ("varchar(20)", ("'x'", "' x '")),
    "padded": ("char(5)", ("'ab'", "'abcde'", "''")),
    "day": ("date", ("'0001-01-01'", "'2024-02-29'", "'9999-12-31'")),
    "moment": (
        "timestamptz",
        (
            "'2024-01-01 00:00:00+02'",
            "'1969-12-31 23:59:59.999999Z'",
            "'0001-01-01 00:00:00.1Z'",
            "'2024-06-01 12:30Z'",
        ),
    ),
    "wall": ("timestamp", ("'2024-01-01 00:00:00.5'", "'1600-01-01'", "'9999-12-31 23:59:59.999999'")),
    "bytes": ("bytea", (r"'\x'", r"'\x00ff'", r"'\xAB'")),
    "id2": ("uuid", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",)),
    "doc": ("jsonb", ("""'{"b": 1, "a": [1, 2]}'""", "'null'")),
    "list": ("int[]", ("'{1,NULL,3}'", "'{}'")),
    "lapse": ("interval", ("'1 day 2 hours'", "'-1 month'")),
}
"""Column -> its type, and values that are easily written in two ways."""


def found(pipeline: Pipeline, **asked: Any) -> Finding:
    [finding] = api.check_source(pipeline, **asked)
    return finding


@pytest.fixture
def here(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    return tmp_path


def run(folder: Path) -> Pipeline:
    pipeline = frazil.load(folder)
    frazil.run(pipeline, spark=spark_session(pipeline))
    return pipeline


def test_values_of_every_type_are_the_same_on_both_sides_until_one_is_changed(here: Path, database: str) -> None:
    """Then one value of each type is changed, in a row of its own: each must be seen."""
    draw = random.Random(7)
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _) in TYPES.items())
    names = ", ".join(f'"{name}"' for name in TYPES)
    declare(here, {"public.orders": "id"})
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        session.execute(f"CREATE TABLE orders (id int PRIMARY KEY, {columns})".encode())
        for number in range(60):
            values = [_drawn(draw, kind, texts) for kind, texts in TYPES.values()]
            session.execute(f"INSERT INTO orders (id, {names}) VALUES ({number}, {', '.join(values)})".encode())
        pipeline = run(here)

        same = found(pipeline)
        assert same.ok is True, same
        assert "60 rows here, 60 in public.orders of ${env:TEST_DB} at " in same.detail
        assert "not compared" not in same.detail

        for number, (name, (kind, texts)) in enumerate(TYPES.items()):
            for text in (*texts, None):
                value = "NULL" if text is None else _literal(kind, text)
                other = f'"{name}"::text IS DISTINCT FROM ({value}::{kind})::text'
                if session.execute(f"SELECT 1 FROM orders WHERE id = {number} AND {other}".encode()).fetchall():
                    break
            session.execute(f'UPDATE orders SET "{name}" = {value} WHERE id = {number}'.encode())
    changed = found(pipeline)
    assert changed.ok is None
    assert f"; {len(TYPES)} keys differ: {len(TYPES)} in flight" in changed.detail
    said = {one.key: one.detail for one in changed.differences}
    assert {one.why for one in changed.differences} == {"in flight"}
    for number, name in [*enumerate(TYPES)][:20]:
        assert f"not captured yet · {name} is " in said[f"id={number}"], said
    run(here)
    assert found(pipeline).ok is True


def _drawn(draw: random.Random, kind: str, texts: tuple[str, ...]) -> str:
    return "NULL" if draw.random() < 0.15 else _literal(kind, draw.choice(texts))


def _literal(kind: str, text: str) -> str:
    return f"{text if text.startswith((chr(39), 'E')) else chr(39) + text + chr(39)}::{kind}"


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


def test_while_others_write_nothing_looks_lost_and_at_rest_all_is_the_same(here: Path, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as session:
        session.execute(TABLES)
        # Else a changed key comes without its long value: docs/operating.md.
        session.execute("ALTER TABLE pair REPLICA IDENTITY FULL")
    declare(here, {table: ", ".join(keys) for table, keys in KEYS.items()})
    pipeline = run(here)
    with Writers(database, seed=5):
        for number in range(6):
            if number % 2:
                land(here)
            if number == 3:
                run(here)
            for finding in api.check_source(pipeline):
                assert finding.ok is not False, finding
    run(here)
    for finding in api.check_source(pipeline):
        assert finding.ok is True, finding


def test_a_table_is_not_emptied_while_it_is_compared(here: Path, database: str) -> None:
    """What a TRUNCATE removes is gone from older snapshots too, so it has to wait."""
    declare(here, {"public.orders": "id"})
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        session.execute("INSERT INTO orders SELECT generate_series(1, 5)")
        session.execute("SET lock_timeout = '100ms'")
        pipeline = run(here)
        with source_of_table(pipeline) as rows:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                session.execute("TRUNCATE orders")
            key = [Compared(name="id", type="int", form="number")]
            assert sum(count for count, _ in rows.sums(key, key).values()) == 5
        session.execute("TRUNCATE orders")


def source_of_table(pipeline: Pipeline) -> AbstractContextManager[SourceRows]:
    opener = rows_at_source(pipeline.tables[0])
    assert opener is not None
    return opener(pipeline, pipeline.tables[0])


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
    """The rows of before the log came with a snapshot: what of it is in both is there once."""
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


def test_a_mart_is_compared_with_a_dump(here: Path, database: str) -> None:
    declare(here, {"public.orders": "id"})
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _) in TYPES.items() if name != "padded")
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'; SET intervalstyle = 'iso_8601'")
        session.execute(f"CREATE TABLE orders (id int PRIMARY KEY, {columns})".encode())
        for number in range(8):
            texts = [
                _literal(kind, texts[number % len(texts)]) for name, (kind, texts) in TYPES.items() if name != "padded"
            ]
            session.execute(f"INSERT INTO orders VALUES ({number}, {', '.join(texts)})".encode())
        session.execute("INSERT INTO orders (id) VALUES (8)")
        pipeline = run(here)
        with session.cursor().copy("COPY orders TO STDOUT (FORMAT csv, HEADER)") as copy:
            dump = b"".join(map(bytes, copy))
    (here / "dump.csv").write_bytes(dump)
    same = found(pipeline, against=here / "dump.csv")
    assert same.ok is True, same
    assert "not compared" not in same.detail

    (here / "other.csv").write_bytes(dump.replace(b"-0.50", b"-0.501").replace(b"\n8,", b"\n9,"))
    finding = found(pipeline, against=here / "other.csv")
    assert {one.key: one.detail for one in finding.differences} == {
        "id=1": "price is -0.5 here, -0.501 there",
        "id=6": "price is -0.5 here, -0.501 there",
        "id=8": "not at the source",
        "id=9": "not here",
    }
    with pytest.raises(MissingFolderError):
        found(pipeline, against=here / "none")


DUMPS = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - {{name: orders, source: {{kind: dms, path: ./files, header: true}}, keys: [id], columns: [{{name: id, type: int}}]}}
  {more}
"""


def test_what_cannot_be_looked_at_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    more = "- {name: more, source: {kind: dms, path: ./files}, keys: [id], columns: [{name: id, type: int}]}"
    (tmp_path / "frazil.yml").write_text(DUMPS.format(more=more))

    with pytest.raises(NothingToCompareError) as error:
        api.check_source(tmp_path)
    assert "a source of kind dms has changes only" in error.value.message
    assert error.value.hint is not None
    assert "--against DUMP" in error.value.hint
    with pytest.raises(NothingToCompareError, match="2 tables are selected"):
        api.check_source(tmp_path, against=tmp_path)


def test_the_command_shows_the_keys_and_ends_with_9(here: Path, database: str) -> None:
    declare(here, {"public.orders": "id"})
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id int PRIMARY KEY, total int)")
        session.execute("INSERT INTO orders SELECT g, g FROM generate_series(1, 30) g")
        pipeline = run(here)
        same = asked(here)
        assert same.code == 0
        assert "30 rows here, 30 in public.orders of ${env:TEST_DB} at " in same.stdout

        session.execute("UPDATE orders SET total = 0 WHERE id = 3")
        behind = asked(here)
        assert behind.code == 0
        assert "id=3: in flight: not captured yet · total is 3 here, 0 there" in behind.stdout

        spark_session(pipeline).sql("UPDATE lake.marts.orders SET total = 0 WHERE id = 4")
        wrong = asked(here)
        assert wrong.code == 9
        assert "2 keys differ: 1 written by somebody else, 1 in flight" in wrong.stdout
        assert "id=4: written by somebody else: its changes give another row · total is 0 here, 4 there" in wrong.stdout
        assert database not in wrong.text


def asked(folder: Path) -> Said:
    return command("check", "--source", f"{folder}")
