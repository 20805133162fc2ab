"""Many databases, schemas or folders in one table: each shard has its own keys, its own order and its own files."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import frazil
from frazil import api
from frazil.errors import FrazilError
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.sources.kinds import captures_of
from frazil.spark.session import spark_session
from frazil.spec.load.parse import parse_declaration

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

FILES = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source:
      kind: sharded
      shards:
        eu: {kind: dms, path: ./landing/eu, header: true, settle_seconds: 0}
        us: {kind: dms, path: ./landing/us, header: true, settle_seconds: 0}
        zz: {kind: dms, path: "./landing/more/*.csv", header: true, settle_seconds: 0}
    keys: [shard, id]
    SEQUENCE
    columns: [{name: shard}, {name: id, type: int}, {name: qty, type: int}, {name: ts, type: timestamp}]
    marts: [{kind: current}, {kind: current, name: soft, deletes: soft}, {kind: history}]
"""
FOLDERS = {"eu": "eu", "us": "us", "zz": "more"}


def run(folder: Path) -> Pipeline:
    pipeline = frazil.load(folder)
    frazil.run(pipeline, spark=spark_session(pipeline))
    assert [finding for finding in check(pipeline) if finding.ok is False] == []
    return pipeline


def drawn(draw: random.Random, landing: Path) -> tuple[list[tuple[Path, str]], dict[tuple[str, int], int]]:
    """Return files with their texts, and the quantities that all of them leave."""
    files = []
    left: dict[tuple[str, int], int] = {}
    for number in range(9):
        lines = [
            (draw.choice("IUUD"), draw.randrange(6), draw.randrange(3), f"2026-01-01 00:00:{number:02}.{row:03}")
            for row in range(draw.randrange(1, 5))
        ]
        text = "op,id,qty,ts\n" + "".join(f"{op},{key},{qty},{at}\n" for op, key, qty, at in lines)
        for shard, folder in FOLDERS.items():
            if shard == "eu" or draw.random() < 0.7:
                files.append((landing / folder / f"20260101-0000{number:02}000.csv", text))
                for op, key, qty, _ in lines:
                    left.pop((shard, key), None)
                    if op != "D":
                        left[shard, key] = qty
    return files, left


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("sequence", "seed"),
    [
        ("sequence_by: [ts]", 1),
        pytest.param("effective_at: ts", 1, marks=pytest.mark.laws),
        pytest.param("sequence_by: [ts]", 2, marks=pytest.mark.laws),
        pytest.param("effective_at: ts", 2, marks=pytest.mark.laws),
    ],
)
def test_each_shard_stands_as_its_own_files_say(spark: SparkSession, tmp_path: Path, sequence: str, seed: int) -> None:
    """Files of two shards often have the same name, and often the same bytes: they are changes of both."""
    del spark  # only there so that Java runs
    draw = random.Random(seed)
    (tmp_path / "frazil.yml").write_text(FILES.replace("SEQUENCE", sequence))
    waiting, expected = drawn(draw, tmp_path / "landing")
    draw.shuffle(waiting)
    for folder in FOLDERS.values():
        (tmp_path / "landing" / folder).mkdir(parents=True)
    for first in range(0, len(waiting), 8):
        for path, text in waiting[first : first + 8]:
            path.write_text(text)
        pipeline = run(tmp_path)

    rows = query(pipeline, "SELECT shard, id, qty FROM marts.orders").rows
    assert {(shard, key): qty for shard, key, qty in rows} == expected
    if sequence.startswith("sequence_by"):
        # Delivered again under other names, when the first are gone: known by its content, and its shard.
        for path, text in waiting:
            path.unlink()
            path.with_name(f"again-{path.name}").write_text(text)
        before = query(pipeline, "SELECT count(*) FROM silver.orders_changes").rows
        run(tmp_path)
        assert query(pipeline, "SELECT count(*) FROM silver.orders_changes").rows == before


@pytest.mark.spark
def test_a_shard_that_fails_is_named(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(FILES.replace("SEQUENCE", "effective_at: ts"))
    (tmp_path / "landing" / "eu").mkdir(parents=True)
    pipeline = frazil.load(tmp_path)

    with pytest.raises(FrazilError, match="shard us: "):
        frazil.run(pipeline, spark=spark_session(pipeline))


DUMPS = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source:
      kind: sharded
      shards:
        eu: {kind: snapshot, path: ./eu, landing: ./landing/eu, settle_seconds: 0, max_delete_fraction: 1}
        us: {kind: snapshot, path: ./us, landing: ./landing/us, settle_seconds: 0, max_delete_fraction: 1}
    keys: [shard, id]
"""


@pytest.mark.spark
@pytest.mark.long
def test_dumps_of_shards_are_compared_within_each(spark: SparkSession, tmp_path: Path) -> None:
    """The dumps of both have the same names, and first the same rows."""
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(DUMPS)
    for day, eu, us in ((1, "1,a\n2,b\n", "1,a\n2,b\n"), (2, "1,c\n", "1,a\n2,b\n3,d\n"), (3, "1,c\n", "3,d\n")):
        for shard, text in (("eu", eu), ("us", us)):
            (tmp_path / shard).mkdir(exist_ok=True)
            (tmp_path / shard / f"2026-01-0{day}.csv").write_text(f"id,note\n{text}")
        pipeline = run(tmp_path)
        expected = [(shard, *line.split(",")) for shard, text in (("eu", eu), ("us", us)) for line in text.split()]
        assert query(pipeline, "SELECT shard, id, note FROM marts.orders ORDER BY ALL").rows == expected


@pytest.mark.spark
@pytest.mark.parametrize("names", ["eu: us, us: eu", "eu: europe, us: us"])
def test_a_place_never_becomes_one_of_another_shard(spark: SparkSession, tmp_path: Path, names: str) -> None:
    """IDENTITY: rows that were read under the old name stayed, beside those of the new one."""
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(DUMPS)
    for shard in ("eu", "us"):
        (tmp_path / shard).mkdir()
        (tmp_path / shard / "2026-01-01.csv").write_text("id,note\n1,a\n2,b\n")
    run(tmp_path)
    text = DUMPS
    for old, new in (pair.split(": ") for pair in names.split(", ")):
        text = text.replace(f"        {old}: {{kind", f"        new {new}: {{kind")
    (tmp_path / "frazil.yml").write_text(text.replace("        new ", "        "))
    for shard in ("eu", "us"):
        (tmp_path / shard / "2026-01-02.csv").write_text("id,note\n1,c\n2,b\n")
    pipeline = frazil.load(tmp_path)

    with pytest.raises(frazil.RunFailedError) as refused:
        frazil.run(pipeline, spark=spark_session(pipeline))

    [error] = refused.value.errors
    assert (error.code, error.exit_code) == ("FZ504", 6)
    assert "source.shards was eu at ./eu, us at ./us" in error.message


SERVERS = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source:
      kind: sharded
      column: region
      shards:
        eu: {kind: postgres, url: "${env:TEST_DB}", table: eu.orders, landing: ./landing}
        us: {kind: postgres, url: "${env:TEST_DB}", table: us.orders, landing: ./landing}
        other: {kind: postgres, url: "${env:OTHER_DB}", table: public.orders, landing: ./other}
    keys: [region, id]
    marts: [{kind: current}, {kind: history}]
  - {name: alone, source: {kind: postgres, url: "${env:TEST_DB}", table: alone, landing: ./landing}, keys: [id]}
"""
CHANGES = (
    "INSERT INTO {t} VALUES ({a}, {b}) ON CONFLICT (id) DO UPDATE SET qty = {b}",
    "INSERT INTO {t} VALUES ({a}, {b}) ON CONFLICT (id) DO UPDATE SET qty = {b}",
    "UPDATE {t} SET qty = qty + 1 WHERE id < {a}",
    "DELETE FROM {t} WHERE id = {a}",
    "UPDATE {t} SET id = id + 100 WHERE id = {a} AND id < 100",
    "TRUNCATE {t}",
)


@pytest.mark.laws
@pytest.mark.usefixtures("spark")
def test_schemas_and_databases_in_one_table(
    database: str, newest_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A truncate of one shard empties that shard, and shards share a slot with one another and with another table."""
    draw = random.Random(3)
    (tmp_path / "frazil.yml").write_text(SERVERS)
    monkeypatch.setenv("TEST_DB", database)
    monkeypatch.setenv("OTHER_DB", newest_database)
    with psycopg.connect(database, autocommit=True) as one, psycopg.connect(newest_database, autocommit=True) as two:
        one.execute("CREATE SCHEMA eu; CREATE SCHEMA us; CREATE TABLE alone (id int PRIMARY KEY, qty int)")
        shards = {"eu": (one, "eu.orders"), "us": (one, "us.orders"), "other": (two, "public.orders")}
        for session, table in shards.values():
            session.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, qty int)".encode())
            session.execute(f"INSERT INTO {table} SELECT g, g FROM generate_series(1, 9) g".encode())
        for number in range(5):
            if number == 3:
                two.execute("SELECT pg_drop_replication_slot('frazil')")
            if number > 2:
                api.reload(tmp_path, ["orders"])
            pipeline = run(tmp_path)
            expected = {
                (shard, *row)
                for shard, (session, table) in shards.items()
                for row in session.execute(f"SELECT id, qty FROM {table}".encode())
            }
            assert {*query(pipeline, "SELECT region, id, qty FROM marts.orders").rows} == expected
            for _ in range(15):
                session, table = draw.choice([*shards.values(), (one, "alone")])
                text = draw.choice(CHANGES).format(t=table, a=draw.randrange(1, 12), b=draw.randrange(9))
                session.execute(text.encode())
        said = [capture.name for capture in captures_of(pipeline, ["orders"])]
        assert [name.partition(" (")[2] for name in said] == ["shards eu, us)", "shard other)"]


@pytest.mark.usefixtures("spark")
def test_each_shard_is_compared_with_its_own_source(
    database: str, newest_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "frazil.yml").write_text(SERVERS)
    monkeypatch.setenv("TEST_DB", database)
    monkeypatch.setenv("OTHER_DB", newest_database)

    def compared() -> tuple[Any, dict[str, tuple[str, str]]]:
        [finding] = api.check_source(tmp_path, select=["orders"])
        return finding, {one.key: (one.why, one.detail) for one in finding.differences}

    with psycopg.connect(database, autocommit=True) as one, psycopg.connect(newest_database, autocommit=True) as two:
        one.execute("CREATE SCHEMA eu; CREATE SCHEMA us; CREATE TABLE alone (id int PRIMARY KEY, qty int)")
        for session, table in ((one, "eu.orders"), (one, "us.orders"), (two, "public.orders")):
            session.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, qty int)".encode())
            session.execute(f"INSERT INTO {table} SELECT g, g FROM generate_series(1, 9) g".encode())
        pipeline = run(tmp_path)
        same, nothing = compared()
        # One shard changes behind the lake, one is written into, and the third has a change in flight.
        spark_session(pipeline).sql("UPDATE lake.marts.orders SET qty = 77 WHERE region = 'us' AND id = 4")
        two.execute("UPDATE orders SET qty = -1 WHERE id = 5")
        _, why = compared()
        one.execute("TRUNCATE eu.orders")
        emptied, gone = compared()

    assert (same.ok, nothing) == (True, {})
    assert same.detail.startswith("27 rows here, 27 in shard eu: eu.orders of ")
    assert why == {
        "region=other, id=5": ("in flight", "not captured yet · qty is 5 here, -1 there"),
        "region=us, id=4": (
            "written by somebody else",
            "its changes give another row · qty is 77 here, 4 there",
        ),
    }
    assert emptied.ok is False
    assert gone.keys() == {*why, *(f"region=eu, id={number}" for number in range(1, 10))}
    assert gone["region=eu, id=1"] == ("in flight", "a truncate is not captured yet · not at the source")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("keys: [shard, id]", "keys: [id]"), "are not those of its shards and 'shard'"),
        (("./landing/us", "./landing/eu/new"), "lie in one folder: ./landing/eu/new"),
        (("./landing/us, header: true", "./landing/us, header: true, op: what"), "is read in another way"),
        (("{name: shard}", "{name: shard, type: int}"), "is the name of the shard, a string"),
        (
            ("./landing/us, header: true", "./landing/us, header: true, csv_delimiter: '\"'"),
            "csv_delimiter of the source",
        ),
        (("./landing/us", "./landing/us, colour: red"), "unknown setting 'colour'"),
    ],
)
def test_shards_that_cannot_work_are_refused(change: tuple[str, str], said: str) -> None:
    with pytest.raises(FrazilError) as error:
        parse_declaration(FILES.replace("SEQUENCE", "effective_at: ts").replace(*change))
    assert said in f"{error.value}"


def test_dumps_of_two_shards_do_not_land_in_one_folder() -> None:
    with pytest.raises(FrazilError, match=r"lie in one folder: \./landing/snapshot/orders"):
        parse_declaration(DUMPS.replace(", landing: ./landing/eu", "").replace(", landing: ./landing/us", ""))
