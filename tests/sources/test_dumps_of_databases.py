"""Tables and views of a database that are dumped whole, since their changes cannot be read."""

from __future__ import annotations

import os
import shutil
import time
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.parquet as pq
import pytest

import frazil
from frazil import api
from frazil.failpoints import FailpointReached
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.sources.capture import TooManyDeletesError, try_lock
from frazil.sources.postgres.errors import ServerSetupError
from frazil.sources.snapshot.capture import BadKeyError, SnapshotCapture, TakenNameError, dumped_rows
from frazil.spark.session import spark_session
from frazil.spec.load.parse import parse_declaration
from frazil.testing.postgres import postgres_server

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.sources.capture import Landed
    from frazil.spec import Pipeline

Row = tuple[str | None, ...]

TABLE = "CREATE TABLE things (id int PRIMARY KEY, name text, price numeric(8,2))"
DEATHS = ("", "dump.taken", "dump.shown", "dump.landed")


@pytest.fixture
def session(database: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TEST_DB", database)
    with psycopg.connect(database, autocommit=True) as found:
        found.execute(TABLE)
        yield found


def declared(folder: Path, settings: str = "max_delete_fraction: 1", table: str = "things") -> Pipeline:
    return parse_declaration(f"""
pipeline: dumps
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: snapshot, url: "${{env:TEST_DB}}", table: {table}, {settings}}}
    keys: [id]
    marts: [{{kind: current}}]
""").at(folder)


def capture_of(folder: Path, settings: str = "max_delete_fraction: 1", table: str = "things") -> SnapshotCapture:
    return SnapshotCapture(declared(folder, settings, table).tables[0])


def land(folder: Path, settings: str = "max_delete_fraction: 1", table: str = "things") -> Landed:
    return capture_of(folder, settings, table).land(folder, lambda _: None)


def dumps(folder: Path) -> list[str]:
    place = folder / "landing" / "snapshot" / ".dumps" / "things"
    return sorted(entry.name for entry in place.iterdir() if entry.name != ".lock")


def replayed(folder: Path) -> list[Row]:
    """Replay all differences in the order of their positions."""
    rows: dict[str, Row] = {}
    place = folder / "landing" / "snapshot" / "things"
    for file in sorted(place.glob("*.parquet"), key=lambda file: file.name.partition(" ")[0]):
        for row in pq.read_table(file).to_pylist():
            rows.pop(row["id"], None)
            if row["__op"] != "d":
                rows[row["id"]] = (row["id"], row["name"], row["price"])
    return sorted(rows.values(), key=repr)


@pytest.mark.parametrize("seed", range(12))
def test_differences_lead_to_what_the_table_holds_wherever_a_capture_dies(
    seed: int, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    for _ in range(8):
        for _ in range(chance.randint(0, 3)):
            key, name = chance.randint(1, 6), chance.choice(["a", "", None, 'q"uo,te', "\n"])
            if chance.random() < 0.3:
                session.execute("DELETE FROM things WHERE id = %s", (key,))
            else:
                session.execute(
                    "INSERT INTO things VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name",
                    (key, name, chance.randint(0, 3)),
                )
        death = chance.choice(DEATHS)
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{death}:raise" if death else "")
        if death:
            with pytest.raises(FailpointReached):
                land(tmp_path)
        else:
            land(tmp_path)
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    land(tmp_path)

    expected = session.execute("SELECT id::text, name, price::text FROM things").fetchall()
    assert replayed(tmp_path) == sorted(expected, key=repr)
    assert len(dumps(tmp_path)) == 1
    assert land(tmp_path).files == 0


def test_a_dump_that_lacks_too_many_rows_is_refused_and_forgotten(session: Any, tmp_path: Path) -> None:
    session.execute("INSERT INTO things SELECT g FROM generate_series(1, 20) g")
    assert land(tmp_path, "every_minutes: 0").records == 20
    before = dumps(tmp_path)
    session.execute("TRUNCATE things")

    with pytest.raises(TooManyDeletesError, match="lacks 20 of 20 rows"):
        land(tmp_path, "every_minutes: 0")

    assert dumps(tmp_path) == before
    assert land(tmp_path).records == 20  # all of them are allowed to go


def test_a_dump_is_taken_at_its_interval(session: Any, tmp_path: Path) -> None:
    session.execute("INSERT INTO things VALUES (1)")
    land(tmp_path, "every_minutes: 60")
    session.execute("INSERT INTO things VALUES (2)")

    assert land(tmp_path, "every_minutes: 60").files == 0
    assert land(tmp_path, "every_minutes: 0").records == 1
    hours_ago = time.time() - 7200
    [dump] = dumps(tmp_path)
    for file in (tmp_path / "landing" / "snapshot" / ".dumps" / "things" / dump).iterdir():
        os.utime(file, (hours_ago, hours_ago))
    # It is due, and is found to be as the table is: so the old one counts as taken now.
    assert land(tmp_path, "every_minutes: 60").files == 0
    assert dumps(tmp_path) == [dump]
    session.execute("INSERT INTO things VALUES (3)")
    assert land(tmp_path, "every_minutes: 60").files == 0


def test_a_reader_role_can_dump_a_view(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session.execute("INSERT INTO things VALUES (1, 'a', 1.5); CREATE VIEW seen AS SELECT id, name, price FROM things")
    session.execute("DROP ROLE IF EXISTS dump_reader; CREATE ROLE dump_reader LOGIN PASSWORD 'reads'")
    session.execute("GRANT SELECT ON seen TO dump_reader")
    address = session.info
    url = f"postgresql://dump_reader:reads@{address.host}:{address.port}/{address.dbname}"
    monkeypatch.setenv("TEST_DB", url)
    try:
        assert land(tmp_path, table="seen").records == 1
        assert replayed(tmp_path) == [("1", "a", "1.50")]
        with pytest.raises(ServerSetupError, match="permission denied for table things") as refused:
            land(tmp_path, table="things")
        assert "GRANT SELECT" in (refused.value.hint or "")
        [looked] = capture_of(tmp_path, table="seen").examine(tmp_path)
        assert looked.ok
    finally:
        session.execute("DROP OWNED BY dump_reader; DROP ROLE dump_reader")


def test_what_is_not_there_is_named(session: Any, tmp_path: Path) -> None:
    del session
    with pytest.raises(ServerSetupError, match=r"table public\.nothing does not exist"):
        land(tmp_path, table="nothing")


def test_rows_with_equal_keys_are_refused(session: Any, tmp_path: Path) -> None:
    session.execute("CREATE VIEW twice AS SELECT 1 AS id UNION ALL SELECT 1")
    with pytest.raises(BadKeyError, match="has 2 rows with id = '1'"):
        land(tmp_path, table="twice")
    assert dumps(tmp_path) == []


@pytest.mark.parametrize("name", ["__op", "__SNAPSHOT", "__taken_at"])
def test_a_field_that_differences_have_themselves_is_refused(name: str, session: Any, tmp_path: Path) -> None:
    session.execute(f'CREATE VIEW named AS SELECT 1 AS id, 2 AS "{name}"'.encode())
    with pytest.raises(TakenNameError, match=f"has a field '{name}'"):
        land(tmp_path, table="named")
    assert dumps(tmp_path) == []
    assert not (tmp_path / "landing" / "snapshot" / "things").exists()


@pytest.mark.server
def test_a_standby_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_server() as server:
        with psycopg.connect(server.url, autocommit=True) as session:
            session.execute(TABLE)
            session.execute("INSERT INTO things VALUES (1, 'a', 1)")
        server.stop()
        (server.data / "standby.signal").touch()
        server.start()
        monkeypatch.setenv("TEST_DB", server.url)
        with psycopg.connect(server.url) as session:
            assert session.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)

        assert land(tmp_path).records == 1
        assert replayed(tmp_path) == [("1", "a", "1.00")]
        [looked] = capture_of(tmp_path).examine(tmp_path)
        assert looked.ok
        pipeline = declared(tmp_path)
        with dumped_rows(pipeline, pipeline.tables[0]) as rows:
            assert rows.columns == ("id", "name", "price")


def test_two_captures_of_one_table_do_not_meet(session: Any, tmp_path: Path) -> None:
    del session
    with try_lock(tmp_path / "landing" / "snapshot" / ".dumps" / "things" / ".lock"):
        assert land(tmp_path).busy is not None


@pytest.mark.spark
def test_the_mart_holds_what_the_table_holds(session: Any, spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text("""
pipeline: dumps
lake: {warehouse: ./lake}
tables:
  - name: things
    source: {kind: snapshot, url: "${env:TEST_DB}", table: things, max_delete_fraction: 1}
    keys: [id]
    marts: [{kind: current}, {kind: history}]
""")
    pipeline = frazil.load(tmp_path)
    steps = (
        "INSERT INTO things SELECT g, 'n' || g, g / 3.0 FROM generate_series(1, 20) g",
        "DELETE FROM things WHERE id < 5; UPDATE things SET price = NULL WHERE id = 9",
        "ALTER TABLE things ADD COLUMN extra timestamptz; UPDATE things SET extra = '2026-01-01' WHERE id = 6",
    )
    for step in steps:
        session.execute(step)
        frazil.run(pipeline, spark=spark_session(pipeline))
        frazil.run(pipeline, spark=spark_session(pipeline))
        expected = session.execute("SELECT id, name, price FROM things ORDER BY id").fetchall()
        assert query(pipeline, "SELECT id, name, price FROM marts.things ORDER BY id").rows == expected
    kinds = [row[:2] for row in query(pipeline, "DESCRIBE marts.things").rows if not row[0].startswith("_")]
    assert kinds == [
        ("id", "INTEGER"),
        ("name", "VARCHAR"),
        ("price", "DECIMAL(8,2)"),
        ("extra", "TIMESTAMP WITH TIME ZONE"),
    ]
    assert query(pipeline, "SELECT count(*) FROM marts.things_history").rows == [(20 + 1 + 1,)]
    assert [finding for finding in check(pipeline) if finding.ok is False] == []

    session.execute("TRUNCATE things")
    declaration = tmp_path / "frazil.yml"
    declaration.write_text(declaration.read_text().replace(", max_delete_fraction: 1", ""))
    [found] = api.check_source(tmp_path)
    assert found.ok is None  # a run would refuse the dump, so nobody knows whether they are in flight
    assert "16 rows here, 0 in public.things" in found.detail


@pytest.mark.spark
def test_dumps_of_a_lost_landing_folder_are_not_begun_again(
    session: psycopg.Connection[Any], spark: SparkSession, tmp_path: Path
) -> None:
    """The first dump of another folder knows of no row that went meanwhile."""
    del spark  # only there so that Java runs
    pipeline = declared(tmp_path)
    session.execute("INSERT INTO things VALUES (1, 'a', 1), (2, 'b', 2)")
    frazil.run(pipeline, spark=spark_session(pipeline))
    session.execute("DELETE FROM things WHERE id = 1")
    (tmp_path / "landing").rename(tmp_path / "lost")

    with pytest.raises(frazil.RunFailedError) as caught:
        frazil.run(pipeline, spark=spark_session(pipeline))
    assert [(error.code, error.retryable) for error in caught.value.errors] == [("FZ720", False)]

    shutil.rmtree(tmp_path / "landing")
    (tmp_path / "lost").rename(tmp_path / "landing")
    frazil.run(pipeline, spark=spark_session(pipeline))
    assert query(pipeline, "SELECT id FROM marts.things").rows == [(2,)]
