"""``frazil doctor`` reports present and coming problems of a PostgreSQL source, with the command that helps."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.hostile.situation import command
from tests.sources.replay import declare, land

from frazil.sources.audit_log.database import audit_trigger
from frazil.sources.postgres.database import examine
from frazil.sources.postgres.database.server import Server
from frazil.testing.postgres import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.server

Session = psycopg.Connection[Any]


@pytest.fixture(params=["database", "newest_database"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    address = str(request.getfixturevalue(request.param))
    monkeypatch.setenv("TEST_DB", address)
    return address


@pytest.fixture
def session(url: str, tmp_path: Path) -> Iterator[Session]:
    declare(tmp_path, {"public.orders": "id"})
    with psycopg.connect(url, autocommit=True) as opened:
        opened.execute("CREATE TABLE orders (id int PRIMARY KEY, qty int)")
        yield opened


def found(folder: Path, *, of: str = "slot frazil of ${env:TEST_DB}") -> list[dict[str, Any]]:
    """Return doctor's findings for a source."""
    said = command("doctor", f"{folder}", "--json")
    assert "hidden" not in said.text
    return [one for one in json.loads(said.stdout) if one["what"] == of]


def wrong(folder: Path) -> tuple[str, str]:
    """The only thing that is wrong, and the way out."""
    [one] = found(folder)
    assert one["ok"] is not True
    return one["detail"], one["hint"]


def obey(session: Session, hint: str) -> None:
    """Type the SQL of a way out."""
    for part in hint.split("; "):
        at = next((at for word in ("ALTER", "GRANT", "CREATE") if (at := part.find(word)) >= 0), None)
        if at is not None:
            session.execute(part[at:].partition(", as a")[0].encode())


def test_a_source_that_is_right(session: Session, tmp_path: Path) -> None:
    [before] = found(tmp_path)
    land(tmp_path)
    [after] = found(tmp_path)

    assert (before["ok"], after["ok"]) == (True, True)
    assert before["detail"].endswith("publication frazil, 1 table; nothing captured yet")
    assert after["detail"].endswith("publication frazil, 1 table")
    del session


def test_a_folder_that_the_first_capture_makes_is_not_missed(session: Session, tmp_path: Path) -> None:
    [folder] = found(tmp_path, of="source of orders")

    assert folder["ok"] is True
    assert "made by the first capture" in folder["detail"]
    del session


def test_a_server_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DB", "postgresql://postgres:hidden@127.0.0.1:1/none")
    declare(tmp_path, {"public.orders": "id"})

    detail, hint = wrong(tmp_path)

    assert "[FZ210]" in detail
    assert "check that the server runs" in hint


def test_doctor_reports_all_problems_at_once(session: Session, tmp_path: Path) -> None:
    declare(tmp_path, {"public.orders": "id", "public.bare": "id", "public.keyed": "v", "public.none": "id"})
    session.execute("CREATE TABLE bare (id int); CREATE TABLE keyed (id int PRIMARY KEY, v int)")
    session.execute("CREATE PUBLICATION frazil FOR TABLE orders WITH (publish = 'insert')")

    details = [one["detail"] for one in found(tmp_path)]

    assert [detail.partition("] ")[2][:40] for detail in details] == [
        "publication frazil leaves out some kinds",
        "public.bare has neither a primary key no",
        "key 'v' of table 'keyed' is not in the r",
        "table public.none does not exist",
    ]


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("CREATE TABLE t (id int)", "neither a primary key nor a replica identity"),
        ("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE)", "neither a primary key nor a replica identity"),
        ('CREATE TABLE t (id int, "Key" int PRIMARY KEY)', "is not in the replica identity of public.t (Key)"),
        (
            "CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION frazil FOR TABLE t WITH (publish = 'insert')",
            "leaves out some kinds of changes",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE PUBLICATION frazil FOR TABLE t",
            "under the names of its partitions",
        ),
    ],
)
def test_the_way_out_is_typed_as_it_stands(session: Session, tmp_path: Path, before: str, says: str) -> None:
    declare(tmp_path, {"public.t": "id"})
    session.execute(before.encode())

    detail, hint = wrong(tmp_path)
    obey(session, hint)

    assert says in detail
    if hint.endswith("REPLICA IDENTITY FULL") and "DEFERRABLE" not in before:
        detail, hint = wrong(tmp_path)
        assert "no unique index of public.t watches over id" in detail
        obey(session, hint)
    assert [one["ok"] for one in found(tmp_path)] == [True]
    land(tmp_path)


def test_rights_that_are_missing(session: Session, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session.execute("DROP ROLE IF EXISTS reader")
    session.execute("CREATE ROLE reader LOGIN PASSWORD 'hidden'")
    info = session.info
    monkeypatch.setenv("TEST_DB", f"postgresql://reader:hidden@127.0.0.1:{info.port}/{info.dbname}")
    try:
        broken = found(tmp_path)
        assert [one["detail"].partition("] ")[2] for one in broken] == [
            "role reader lacks REPLICATION",
            "role reader cannot read public.orders",
            "publication frazil does not exist, and reader may not create one of these tables",
        ]
        for one in broken:
            obey(session, one["hint"])

        assert [one["ok"] for one in found(tmp_path)] == [True]
        assert land(tmp_path).busy is None

        session.execute('CREATE TABLE "Order" (id int PRIMARY KEY)')
        declare(tmp_path, {"public.orders": "id", "public.Order": "id"})
        last = found(tmp_path)
        assert "publication frazil lacks public.Order" in last[-1]["detail"]
        for one in last:
            obey(session, one["hint"])
        assert land(tmp_path).files == 1
    finally:
        session.execute("DROP OWNED BY reader CASCADE; DROP ROLE reader")
    del url


def test_a_server_with_too_few_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_server(settings={"max_replication_slots": "1", "max_wal_senders": "0"}) as server:
        monkeypatch.setenv("TEST_DB", server.url)
        declare(tmp_path, {"public.t": "id"})
        with psycopg.connect(server.url, autocommit=True) as session:
            session.execute("CREATE TABLE t (id int PRIMARY KEY)")
        slots, senders = found(tmp_path)
        assert "0 of max_replication_slots = 1 are in use, and 2 more are needed" in slots["detail"]
        assert "0 of max_wal_senders = 0 are in use, and 1 more is needed" in senders["detail"]
        assert "ALTER SYSTEM SET max_replication_slots = 2, then restart the server" in slots["hint"]
        assert "ALTER SYSTEM SET max_wal_senders = 1, then restart the server" in senders["hint"]


def test_a_server_without_logical_wal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_server(settings={"wal_level": "replica"}) as server:
        monkeypatch.setenv("TEST_DB", server.url)
        declare(tmp_path, {"public.t": "id"})
        with psycopg.connect(server.url, autocommit=True) as session:
            session.execute("CREATE TABLE t (id int PRIMARY KEY)")

        detail, hint = wrong(tmp_path)

        assert "wal_level=replica" in detail
        assert "ALTER SYSTEM SET wal_level = 'logical'" in hint


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("SELECT pg_drop_replication_slot('frazil')", "the slot is gone"),
        ("SELECT pg_replication_slot_advance('frazil', pg_current_wal_lsn())", "another process has read"),
        ("ALTER PUBLICATION frazil DROP TABLE orders", "public.orders was removed from publication frazil"),
    ],
)
def test_changes_that_are_missed(session: Session, tmp_path: Path, what: str, says: str) -> None:
    land(tmp_path)
    session.execute("INSERT INTO orders VALUES (1, 1)")
    session.execute(what.encode())

    [one] = found(tmp_path)

    assert one["ok"] is False
    assert one["detail"].startswith("[FZ705] ")
    assert says in one["detail"]


def test_another_server_is_detected(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Any
) -> None:
    land(tmp_path)
    monkeypatch.setenv("TEST_DB", postgres.url)

    assert "from another server or database" in found(tmp_path)[0]["detail"]
    del session


def test_a_lost_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    little = {"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    with postgres_server(settings=little) as server:
        monkeypatch.setenv("TEST_DB", server.url)
        declare(tmp_path, {"public.t": "id"})
        with psycopg.connect(server.url, autocommit=True) as session:
            session.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            land(tmp_path)
            for _ in range(8):
                session.execute("INSERT INTO t SELECT 0, repeat('x', 1000) WHERE false; SELECT pg_switch_wal()")
                session.execute("CREATE TABLE filler AS SELECT repeat(md5(g::text), 9) FROM generate_series(1, 9999) g")
                session.execute("DROP TABLE filler; CHECKPOINT")

            detail, hint = wrong(tmp_path)
            assert "the server has removed WAL that the slot needs" in detail
            monkeypatch.chdir(tmp_path)
            assert hint.endswith(": frazil capture --reload t; frazil run")
            assert command("capture", "--reload", "t").code == 0
            assert [one["ok"] for one in found(tmp_path)] == [True]


def test_another_reader_and_a_slot_that_holds_much_back(
    session: Session, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path)
    monkeypatch.setattr(examine, "_MUCH_WAL_BYTES", 1000)
    session.execute("INSERT INTO orders SELECT g, g FROM generate_series(1, 1000) g")
    day = time.time() - 26 * 3600
    os.utime(tmp_path / "landing" / ".frazil-frazil.json", (day, day))

    details = " / ".join(f"{one['ok']} {one['detail']}" for one in found(tmp_path))

    assert "None the slot holds back" in details
    assert "None nothing was captured for 26 hours" in details

    reader = psycopg.connect(url, autocommit=True, replication="database", application_name="other")
    try:
        reader.pgconn.exec_(
            b"START_REPLICATION SLOT frazil LOGICAL 0/0 (proto_version '1', publication_names 'frazil')"
        )
        pid = reader.info.backend_pid
        said = [one["detail"] for one in found(tmp_path)]
        assert f"process {pid} of the server (other) reads the slot now" in said
    finally:
        reader.pgconn.finish()


def test_a_capture_at_work_is_not_disturbed(session: Session, url: str, tmp_path: Path) -> None:
    land(tmp_path)
    with Server(url) as other:
        assert other.lock("frazil")
        assert [one["ok"] for one in found(tmp_path)] == [True]
    del session


def test_an_audit_log_is_looked_at_too(url: str, tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(
        """pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: audit_log, url: "${env:TEST_DB}", log: public.log, table: orders, landing: ./landing}
    keys: [id]
    marts: [{kind: current}]
""",
        encoding="utf-8",
    )
    what = "log public.log of ${env:TEST_DB}"
    [missing] = found(tmp_path, of=what)
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(audit_trigger("public.log", []))
    [right] = found(tmp_path, of=what)

    assert (missing["ok"], right["ok"]) == (False, True)
    assert "does not exist" in missing["detail"]
    assert right["detail"].endswith("nothing captured yet")
