"""HANDOVER: a server that was restored to an earlier state, or whose place another took, is found."""

from __future__ import annotations

import shutil
from time import sleep
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.sources.replay import declare, land, replayed, selected

from frazil import api
from frazil.sources.postgres.errors import SlotLostError
from frazil.testing.postgres import PostgresServer, find_programs, postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.server


@pytest.fixture(params=[15, 18])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    """A server with a captured table of two rows, and a backup of it from before the second was there."""
    [programs] = [one for one in find_programs() if one.major == request.param][:1]
    with postgres_server(programs) as started:
        monkeypatch.setenv("TEST_DB", started.url)
        declare(tmp_path, {"public.t": "id"})
        tell(started, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        land(tmp_path)
        started.stop()
        copied(started.data, backup(started))
        started.start()
        tell(started, "INSERT INTO t VALUES (2)")
        land(tmp_path)
        yield started


def backup(server: PostgresServer) -> Path:
    return server.folder / "backup"


def copied(data: Path, target: Path) -> None:
    """Copy a folder with its owners, which must be the server's."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(data, target)
    owner = data.stat()
    for path in (target, *target.rglob("*")):
        shutil.chown(path, owner.st_uid, owner.st_gid)


def tell(server: PostgresServer, text: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as session:
        session.execute(text.encode())


def promoted(server: PostgresServer) -> None:
    """Wait until it is no longer in recovery."""
    with psycopg.connect(server.url, autocommit=True) as session:
        while session.execute("SELECT pg_is_in_recovery()").fetchone() != (False,):
            sleep(0.05)


def test_a_server_that_was_restored_is_found_and_read_again(server: PostgresServer, tmp_path: Path) -> None:
    """Also when it has written as much again as it lost."""
    server.stop()
    copied(backup(server), server.data)
    server.start()
    with pytest.raises(SlotLostError, match="the server was restored"):
        land(tmp_path)
    tell(server, "INSERT INTO t VALUES (3); SELECT pg_switch_wal(); SELECT pg_switch_wal(); INSERT INTO t VALUES (4)")
    with pytest.raises(SlotLostError, match="the server was restored"):
        land(tmp_path)

    api.reload(tmp_path, ["t"])
    tell(server, "INSERT INTO t VALUES (5); DELETE FROM t WHERE id = 1")
    land(tmp_path)

    rows: Any = replayed(tmp_path, "public.t", ["id"])
    assert rows == selected(server.url, "t", ["id"])
    assert {*rows} == {("3",), ("4",), ("5",)}


@pytest.mark.parametrize("is_whole", [True, False])
def test_another_server_in_its_place_is_gone_on_with_if_it_lacks_nothing(
    server: PostgresServer, tmp_path: Path, *, is_whole: bool
) -> None:
    """A new timeline is no harm of itself; one that begins before what was landed is."""
    server.stop()
    old = server.folder / "old"
    copied(server.data, old)
    copied(backup(server), server.data)
    target = [] if is_whole else ["recovery_target = 'immediate'", "recovery_target_action = 'promote'"]
    settings = [f"restore_command = 'cp {old}/pg_wal/%f %p'", *target]
    with (server.data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write("\n".join(["", *settings, ""]))
    (server.data / "recovery.signal").touch()
    shutil.chown(server.data / "recovery.signal", server.data.stat().st_uid, server.data.stat().st_gid)
    server.start()
    promoted(server)
    tell(server, "INSERT INTO t VALUES (3)")

    if not is_whole:
        with pytest.raises(SlotLostError, match="the server was restored"):
            land(tmp_path)
        api.reload(tmp_path, ["t"])
    land(tmp_path)

    assert replayed(tmp_path, "public.t", ["id"]) == selected(server.url, "t", ["id"])
    assert bool([*(tmp_path / "landing").glob("*/restart-*")]) is not is_whole
