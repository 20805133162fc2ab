"""HANDOVER: tables that are read again while they are written, and after a slot was lost, are those of the server.

History has no version that never was: what is the same stays one, what differs gets one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.hostile.situation import command
from tests.sources.replay import declare, land, records, replayed, selected
from tests.sources.test_postgres_histories import PROCESSES, equals_the_source, settled
from tests.sources.writers import KEYS, TABLES, Writers

import frazil
from frazil import api
from frazil.errors import DeclarationError
from frazil.failpoints import FAILPOINTS
from frazil.lake.session import spark_session
from frazil.serve.check import check
from frazil.serve.query import query
from frazil.sources.deletes import TooManyDeletesError
from frazil.sources.postgres.brake import known_and_gone
from frazil.sources.postgres.errors import ServerError, ServerSetupError, SlotLostError
from frazil.sources.postgres.server import Server
from frazil.testing.postgres import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

pytestmark = pytest.mark.server

DEATHS = tuple(name for name in FAILPOINTS if name.startswith("capture.reload_"))
ALL = {table: ", ".join(keys) for table, keys in KEYS.items()}
NAMES = [table.rpartition(".")[2] for table in KEYS]
VERSIONS = "SELECT id, v, extra, is_current, is_deleted FROM marts.t_history ORDER BY id, valid_from"


@pytest.fixture(params=["newest_database", pytest.param("database", marks=pytest.mark.laws)])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    address = str(request.getfixturevalue(request.param))
    monkeypatch.setenv("TEST_DB", address)
    return address


@pytest.fixture
def session(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened


def taken(pipeline: Pipeline) -> None:
    frazil.run(pipeline, spark=spark_session(pipeline))
    assert [finding for finding in check(pipeline) if finding.ok is False] == []


def obey(folder: Path, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Type what an error says, in the folder of the declaration."""
    monkeypatch.chdir(folder)
    typed = re.findall(r"frazil ([^;]+)", hint)
    assert typed
    for line in typed:
        said = command(*line.split())
        assert said.code == 0, said.text


@pytest.mark.spark
def test_rows_that_differ_get_a_version_and_the_others_none(
    session: psycopg.Connection[Any], spark: SparkSession, tmp_path: Path
) -> None:
    del spark  # only there so that Java runs
    declare(tmp_path, {"public.t": "id"})
    pipeline = frazil.load(tmp_path)
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    session.execute("INSERT INTO t SELECT g, repeat('v', 3000) FROM generate_series(1, 4) g")
    taken(pipeline)
    session.execute("UPDATE t SET v = 'new' WHERE id = 2")
    # The default comes into the rows there, and is no change.
    session.execute("ALTER TABLE t ADD COLUMN extra int DEFAULT 7")
    session.execute("UPDATE t SET extra = NULL WHERE id IN (3, 4)")
    taken(pipeline)
    before = query(pipeline, VERSIONS).rows
    assert {row[2] for row in before} == {None}

    [(_, landed)] = api.reload(pipeline, ["t"])
    taken(pipeline)

    assert landed.records == 4
    after = query(pipeline, VERSIONS).rows
    # 1 and 2 have the default now, 3 and 4 are as they were.
    assert [row for row in after if row[0] > 2] == [row for row in before if row[0] > 2]
    assert [(row[0], row[2], row[3]) for row in after if row[0] <= 2] == [
        (1, None, False),
        (1, 7, True),
        (2, None, False),
        (2, None, False),
        (2, 7, True),
    ]
    rows = "SELECT id, v, extra FROM {} ORDER BY id"
    assert query(pipeline, rows.format("marts.t")).rows == session.execute(rows.format("t").encode()).fetchall()

    api.reload(pipeline, ["t"])
    taken(pipeline)
    assert query(pipeline, VERSIONS).rows == after, "nothing differs any more"


@pytest.mark.laws
@pytest.mark.spark
def test_a_change_from_before_that_is_applied_behind_stands_at_its_time(
    session: psycopg.Connection[Any], spark: SparkSession, tmp_path: Path
) -> None:
    del spark  # only there so that Java runs
    declare(tmp_path, {"public.t": "id"})
    pipeline = frazil.load(tmp_path)
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text, extra int); INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    taken(pipeline)
    session.execute("UPDATE t SET v = 'late' WHERE id = 1; DELETE FROM t WHERE id = 2")
    land(tmp_path)
    [(moment,)] = session.execute("SELECT now()").fetchall()
    [file] = (tmp_path / "landing" / "public.t").glob("*.parquet")
    file.rename(tmp_path / file.name)
    api.reload(pipeline, ["t"])
    taken(pipeline)
    assert query(pipeline, "SELECT id, v FROM marts.t").rows == [(1, "late")]

    (tmp_path / file.name).rename(file)
    taken(pipeline)

    held = query(pipeline, VERSIONS).rows
    assert held == [(1, "a", None, False, False), (1, "late", None, True, False), (2, "a", None, False, True)]
    times = "SELECT max(coalesce(valid_to, valid_from)) FROM marts.t_history"
    assert query(pipeline, times).rows[0][0] < moment
    frazil.run(pipeline, spark=spark_session(pipeline), rebuild=True)
    assert query(pipeline, VERSIONS).rows == held


@pytest.mark.spark
def test_a_lost_slot_is_begun_anew_by_what_the_error_says(
    session: psycopg.Connection[Any], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    declare(tmp_path, {"public.t": "id", "public.other": "id"})
    pipeline = frazil.load(tmp_path)
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text, extra int); CREATE TABLE other (id int PRIMARY KEY)")
    session.execute("INSERT INTO t SELECT g, 'a', 0 FROM generate_series(1, 5) g; INSERT INTO other VALUES (1)")
    taken(pipeline)
    session.execute("SELECT pg_drop_replication_slot('frazil')")
    session.execute("UPDATE t SET v = 'b' WHERE id = 1; UPDATE t SET v = 'c' WHERE id = 1; DELETE FROM t WHERE id = 2")
    session.execute("INSERT INTO t VALUES (6, 'new', 0); DELETE FROM other; INSERT INTO other VALUES (2)")
    with pytest.raises(SlotLostError) as caught:
        land(tmp_path)

    obey(tmp_path, caught.value.hint or "", monkeypatch)

    assert [finding for finding in check(pipeline) if finding.ok is False] == []
    expected = [
        *[(1, "a", 0, False, False), (1, "c", 0, True, False), (2, "a", 0, False, True)],
        *[(number, "a", 0, True, False) for number in (3, 4, 5)],
        (6, "new", 0, True, False),
    ]
    assert query(pipeline, VERSIONS).rows == expected
    assert query(pipeline, "SELECT id FROM marts.other").rows == [(2,)]

    session.execute("UPDATE t SET v = 'z' WHERE id = 3")
    taken(pipeline)
    assert query(pipeline, "SELECT v FROM marts.t WHERE id = 3").rows == [("z",)]
    held = query(pipeline, VERSIONS).rows
    frazil.run(pipeline, spark=spark_session(pipeline), rebuild=True)
    assert query(pipeline, VERSIONS).rows == held


def allow(folder: Path) -> None:
    """Let any share of the rows be gone."""
    file = folder / "frazil.yml"
    text = file.read_text(encoding="utf-8")
    text = text.replace("landing: ./landing}", "landing: ./landing, max_delete_fraction: 1}")
    file.write_text(text, encoding="utf-8")


def again(folder: Path, url: str, place: str, tables: list[str]) -> None:
    os.environ |= {"FRAZIL_FAILPOINT": place, "TEST_DB": url}
    with suppress(ServerError):  # the server may have died
        api.reload(Path(folder), tables)


def die(folder: Path, url: str, place: str, tables: list[str]) -> int | None:
    process = PROCESSES.Process(target=again, args=(f"{folder}", url, place, tables))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode


@pytest.mark.fault
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.laws) for seed in range(2, 21))])
def test_tables_that_are_read_again_while_they_are_written_equal_the_source(
    seed: int, session: psycopg.Connection[Any], url: str, tmp_path: Path
) -> None:
    random = Random(seed)
    session.execute(TABLES)
    declare(tmp_path, ALL)
    allow(tmp_path)
    with Writers(url, seed):
        land(tmp_path)
        for place in ("", *random.sample(DEATHS, 2)):
            chosen = random.sample(NAMES, random.randrange(1, 4))
            if random.random() < 0.3:
                session.execute("SELECT pg_drop_replication_slot('frazil')")
                chosen = NAMES
            die(tmp_path, url, place, chosen)
            try:
                settled(tmp_path)
            except SlotLostError:
                api.reload(tmp_path, NAMES)
                settled(tmp_path)
    settled(tmp_path)

    equals_the_source(tmp_path, url)
    for table, keys in KEYS.items():
        count = len(replayed(tmp_path, table, keys))
        folder = tmp_path / "landing" / table
        assert known_and_gone(folder, tmp_path / "nothing", keys) == (count, count)
    assert [one for one in (tmp_path / "landing").glob("*/re*") if one.is_dir()]


@pytest.mark.laws
@pytest.mark.spark
@pytest.mark.parametrize("seed", range(2, 5))
def test_marts_of_tables_that_are_read_again_equal_the_source(
    seed: int, session: psycopg.Connection[Any], url: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Files come in any order, and the proofs of ``check`` and a rebuild find nothing else."""
    del spark  # only there so that Java runs
    random = Random(seed)
    session.execute(TABLES)
    declare(tmp_path, ALL)
    allow(tmp_path)
    pipeline = frazil.load(tmp_path)
    aside: list[tuple[Path, Path]] = []
    with Writers(url, seed):
        taken(pipeline)
        for number in range(6):
            land(tmp_path)
            changes = sorted((tmp_path / "landing").glob("*/*-*-*.parquet"))
            if changes and random.random() < 0.5:
                file = random.choice(changes)
                aside.append((file.rename(tmp_path / f"{number}-{file.name}"), file))
            if random.random() < 0.3:
                session.execute("SELECT pg_drop_replication_slot('frazil')")
                api.reload(pipeline, NAMES)
            elif random.random() < 0.7:
                api.reload(pipeline, random.sample(NAMES, random.randrange(1, 4)))
            taken(pipeline)
            if aside and random.random() < 0.5:
                hidden, file = aside.pop()
                hidden.rename(file)
    for hidden, file in aside:
        hidden.rename(file)
    taken(pipeline)

    session.execute("SET timezone = 'UTC'")
    held = {}
    for table, keys in KEYS.items():
        name, order = table.rpartition(".")[2], ", ".join(keys)
        cursor = session.execute(f"SELECT * FROM {table} ORDER BY {order}".encode())
        columns = ", ".join(f'"{column.name}"' for column in cursor.description or ())
        assert query(pipeline, f"SELECT {columns} FROM marts.{name} ORDER BY {order}").rows == cursor.fetchall()
        history = f"SELECT * FROM marts.{name}_history ORDER BY ALL"
        held[history] = query(pipeline, history).rows
    frazil.run(pipeline, spark=spark_session(pipeline), rebuild=True)
    for text, found in held.items():
        assert query(pipeline, text).rows == found


@pytest.mark.fault
@pytest.mark.parametrize("place", DEATHS)
def test_a_slot_that_is_begun_anew_is_so_to_the_end(
    place: str, session: psycopg.Connection[Any], url: str, tmp_path: Path
) -> None:
    session.execute(TABLES)
    declare(tmp_path, ALL)
    allow(tmp_path)
    with Writers(url, 5):
        land(tmp_path)
        session.execute("SELECT pg_drop_replication_slot('frazil')")
        assert die(tmp_path, url, place, NAMES) == -signal.SIGKILL
        with pytest.raises(SlotLostError) as caught:
            land(tmp_path)
        asked = re.findall("--reload ([a-z]+)", caught.value.hint or "")
        assert len(asked) == (2 if place.endswith("shown") else 3), "a table that was read again needs it no more"
        api.reload(tmp_path, asked)
        settled(tmp_path)
    settled(tmp_path)

    equals_the_source(tmp_path, url)


def test_another_server_goes_on_where_the_one_before_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its positions are smaller: what is read again, and all changes behind it, stand after everything before."""
    declare(tmp_path, {"public.t": "id"})
    table = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)"
    with postgres_server() as old, psycopg.connect(old.url, autocommit=True) as session:
        monkeypatch.setenv("TEST_DB", old.url)
        for _ in range(10):
            session.execute("SELECT pg_switch_wal(), pg_logical_emit_message(true, '', 'x')")
        session.execute(table.encode())
        land(tmp_path)
        session.execute("UPDATE t SET v = 100")
        land(tmp_path)
    with postgres_server() as new, psycopg.connect(new.url, autocommit=True) as session:
        monkeypatch.setenv("TEST_DB", new.url)
        session.execute(table.encode())
        session.execute("DELETE FROM t WHERE id = 2")
        with pytest.raises(SlotLostError, match="of another server"):
            land(tmp_path)

        api.reload(tmp_path, ["t"])
        session.execute("INSERT INTO t VALUES (3, 3)")
        land(tmp_path)
        session.execute("UPDATE t SET v = v + 10")
        land(tmp_path)

        assert replayed(tmp_path, "public.t", ["id"]) == selected(new.url, "t", ["id"])
        assert [record["__op"] for record in records(tmp_path, "public.t")] == [*"rruutriuu"]


def test_a_slot_that_somebody_else_has_read_is_replaced(session: psycopg.Connection[Any], tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)")
    declare(tmp_path, {"public.t": "id", "public.other": "id"})
    land(tmp_path)
    session.execute("INSERT INTO t VALUES (1)")
    session.execute("SELECT pg_replication_slot_advance('frazil', pg_current_wal_lsn())")

    with pytest.raises(SlotLostError, match="somebody else"):
        api.reload(tmp_path, ["t"])
    api.reload(tmp_path, ["t", "other"])
    land(tmp_path)

    assert {*replayed(tmp_path, "public.t", ["id"])} == {("1",)}


def test_it_waits_for_the_capture_that_is_at_work(session: psycopg.Connection[Any], url: str, tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY)")
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        with Server(url) as other:
            assert other.lock("frazil")
            reading = pool.submit(api.reload, tmp_path, ["t"])
            with suppress(TimeoutError):
                reading.result(1)
            assert not reading.done()
            assert land(tmp_path).busy is not None
        [(_, landed)] = reading.result(30)

    assert landed.files == 2
    assert command("capture", f"{tmp_path}", "--reload", "t", "--select", "t").code == 2


def test_what_cannot_be_read_again_is_said(session: psycopg.Connection[Any], tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamp)")
    declare(tmp_path, {"public.t": "id"})
    with pytest.raises(ServerSetupError, match="not captured yet"):
        api.reload(tmp_path, ["t"])
    land(tmp_path)
    file = tmp_path / "frazil.yml"
    file.write_text(f"{file.read_text(encoding='utf-8')}    sequence_by: [at]\n", encoding="utf-8")

    with pytest.raises(DeclarationError, match="takes order or times of its changes from column 'at'"):
        api.reload(tmp_path, ["t"])
    assert not [*(tmp_path / "landing").glob("*/reload-*")]


def test_a_table_that_was_not_published_is_read_again_alone(session: psycopg.Connection[Any], tmp_path: Path) -> None:
    """What was not captured meanwhile is in its rows; what comes before them is landed of the other table only."""
    session.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)")
    session.execute("INSERT INTO t VALUES (1), (2)")
    declare(tmp_path, {"public.t": "id", "public.other": "id"})
    land(tmp_path)
    session.execute("ALTER PUBLICATION frazil DROP TABLE t")
    session.execute("DELETE FROM t WHERE id = 1; INSERT INTO other VALUES (1)")
    session.execute(
        "ALTER PUBLICATION frazil ADD TABLE t; INSERT INTO t VALUES (1); ALTER PUBLICATION frazil DROP TABLE t"
    )
    session.execute("INSERT INTO other VALUES (2); INSERT INTO t VALUES (3)")
    with pytest.raises(SlotLostError) as caught:
        land(tmp_path)

    assert (caught.value.hint or "").endswith(": frazil capture --reload t; frazil run")
    api.reload(tmp_path, ["t"])
    session.execute("INSERT INTO t VALUES (4)")
    land(tmp_path)

    for table in ("t", "other"):
        assert replayed(tmp_path, f"public.{table}", ["id"]) == selected(os.environ["TEST_DB"], table, ["id"])
    assert [record["__op"] for record in records(tmp_path, "public.other")] == ["i", "i"]
    assert "t" in [record["__op"] for record in records(tmp_path, "public.t")]


def test_rows_that_lack_too_many_are_refused_until_allowed(session: psycopg.Connection[Any], tmp_path: Path) -> None:
    """Nothing is lost by a refusal: the slot goes on."""
    keys = ["order", "by"]
    session.execute('CREATE TABLE t ("order" int, by text, PRIMARY KEY ("order", by))')
    session.execute("INSERT INTO t SELECT g, 'a' FROM generate_series(1, 90) g")
    declare(tmp_path, {"public.t": ", ".join(keys)})
    land(tmp_path)
    session.execute("""UPDATE t SET "order" = "order" + 1000 WHERE "order" <= 5""")
    session.execute("""DELETE FROM t WHERE "order" = 6; INSERT INTO t VALUES (7, 'b')""")
    land(tmp_path)
    session.execute("ALTER PUBLICATION frazil DROP TABLE t")
    session.execute('DELETE FROM t WHERE "order" BETWEEN 10 AND 28')
    with pytest.raises(TooManyDeletesError, match=r"public\.t lacks 19 of 90 rows of the one before") as caught:
        api.reload(tmp_path, ["t"])

    assert "raise max_delete_fraction in the source" in (caught.value.hint or "")
    with pytest.raises(SlotLostError):
        land(tmp_path)
    allow(tmp_path)
    api.reload(tmp_path, ["t"])
    session.execute("INSERT INTO t VALUES (3000, 'new')")
    land(tmp_path)

    assert replayed(tmp_path, "public.t", keys) == selected(os.environ["TEST_DB"], "t", keys)
    assert not [*(tmp_path / "landing").glob("*/.load*")]


def test_a_table_with_an_order_of_its_own_begins_again(
    session: psycopg.Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamp); CREATE TABLE other (id int PRIMARY KEY)")
    declare(tmp_path, {"public.other": "id", "public.t": "id"})
    file = tmp_path / "frazil.yml"
    file.write_text(f"{file.read_text(encoding='utf-8')}    sequence_by: [at]\n", encoding="utf-8")
    session.execute("INSERT INTO t VALUES (1, now())")
    land(tmp_path)
    session.execute("SELECT pg_drop_replication_slot('frazil'); INSERT INTO t VALUES (2, now())")
    with pytest.raises(SlotLostError) as caught:
        land(tmp_path)

    folder = tmp_path / "landing" / "public.t"
    steps = (caught.value.hint or "").split(": ", 1)[1].split("; ")
    assert steps == ["frazil drop --select t", f"rm -r {folder}", "frazil capture --reload other", "frazil run"]
    shutil.rmtree(folder)
    monkeypatch.chdir(tmp_path)
    assert command(*steps[2].split()[1:]).code == 0
    land(tmp_path)

    assert replayed(tmp_path, "public.t", ["id"]) == selected(os.environ["TEST_DB"], "t", ["id"])
