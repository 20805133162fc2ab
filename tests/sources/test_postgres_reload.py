"""HANDOVER: what a table that is read again holds, after a slot was lost too, and what is refused."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.hostile.situation import command
from tests.sources.reloads import allow
from tests.sources.replay import declare, land, records, replayed, selected

from frazil import api
from frazil.errors import DeclarationError
from frazil.sources.capture import TooManyDeletesError
from frazil.sources.postgres.database.server import Server
from frazil.sources.postgres.errors import ServerSetupError, SlotLostError
from frazil.testing.postgres import postgres_server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server


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
        with pytest.raises(SlotLostError, match="from another server"):
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

    with pytest.raises(SlotLostError, match="another process"):
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


def test_tables_that_cannot_be_reloaded_are_reported(session: psycopg.Connection[Any], tmp_path: Path) -> None:
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
    """Its rows contain the uncaptured changes; earlier changes are landed only for the other table."""
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
    for again in ("", "ALTER PUBLICATION frazil ADD TABLE t"):
        if again:
            session.execute(again.encode())
        failed = land(tmp_path).failed
        assert [*failed] == ["t"], "what was missed stays known, also once the table is published again"
        assert ": frazil capture --reload t; frazil run" in (failed["t"].hint or "")
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
    assert isinstance(land(tmp_path).failed["t"], SlotLostError)
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
    lost, commands = (caught.value.hint or "").split("): ", 1)
    steps = commands.split("; ")
    assert lost == "read the tables again (t: what its history has so far is lost"
    assert steps == ["frazil drop --select t", f"rm -r {folder}", "frazil capture --reload other", "frazil run"]
    shutil.rmtree(folder)
    monkeypatch.chdir(tmp_path)
    assert command(*steps[2].split()[1:]).code == 0
    land(tmp_path)

    assert replayed(tmp_path, "public.t", ["id"]) == selected(os.environ["TEST_DB"], "t", ["id"])
