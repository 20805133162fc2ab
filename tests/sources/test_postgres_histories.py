"""HANDOVER, ONCE, NOTHING-LOST: random transactions while tables are loaded and captured, and captures that die.

The landed files, played back in plain Python, end in what the tables of the database hold.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from time import sleep
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.sources.replay import declare, land, replayed, selected
from tests.sources.writers import KEYS, TABLES, Writers

from frazil.failpoints import FAILPOINTS
from frazil.sources.landed_files import LANDED
from frazil.sources.postgres.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.testing.postgres import PostgresServer

DEATHS = tuple(name for name in FAILPOINTS if name.startswith("capture.") and "reload" not in name)

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.sources.replay", "frazil.sources.postgres.turn"])


def history(seed: int, url: str, folder: Path, deaths: int, server: PostgresServer | None = None) -> set[str]:
    """Let writers write while captures land and die, and a server once; return where the captures died."""
    random = Random(seed)
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(TABLES)
    early = {table: ", ".join(keys) for table, keys in KEYS.items() if random.random() < 0.7 or table == "public.plain"}
    declare(folder, early)
    places = random.sample(DEATHS, deaths)
    died = set()
    crash_at = random.choice(places)
    with Writers(url, seed):
        for place in places:
            ended = die(folder, url, place, partial(crash, server, random) if server and place == crash_at else None)
            if ended == -signal.SIGKILL:
                died.add(place)
            if random.random() < 0.5:
                declare(folder, {table: ", ".join(keys) for table, keys in KEYS.items()})
    declare(folder, {table: ", ".join(keys) for table, keys in KEYS.items()})
    settled(folder)
    return died


def crash(server: PostgresServer, random: Random) -> None:
    """Let the server end as if its machine had stopped, and start again."""
    sleep(random.random() * 2)
    server.kill()
    server.start()


def die(folder: Path, url: str, place: str, meanwhile: Callable[[], None] | None = None) -> int | None:
    """Run one turn of a capture in a process of its own, and kill the process at a place."""
    process = PROCESSES.Process(target=one_turn, args=(f"{folder}", url, place))
    process.start()
    if meanwhile:
        meanwhile()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode


def one_turn(folder: str, url: str, place: str) -> None:
    os.environ |= {"FRAZIL_FAILPOINT": place, "TEST_DB": url}
    with suppress(ServerError):  # it may have died
        land(Path(folder))


def settled(folder: Path) -> None:
    """Land until nothing is missing; the server takes a moment to see that a killed capture is gone."""
    for _ in range(1000):
        landed = land(folder)
        for error in landed.failed.values():
            raise error
        if landed.busy is None and landed.files == 0:
            return
    pytest.fail("it never ends")


def equals_the_source(folder: Path, url: str) -> None:
    for table, keys in KEYS.items():
        assert replayed(folder, table, keys) == selected(url, table, keys), table
        assert [path.name for path in (folder / "landing" / table).glob(".*")] == [LANDED]


@pytest.mark.fault
def test_a_capture_that_dies_lands_everything_once(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DB", database)

    died = history(3, database, tmp_path, 3)

    assert died
    equals_the_source(tmp_path, database)


@pytest.mark.laws
@pytest.mark.fault
@pytest.mark.parametrize("seed", range(100, 150))
def test_histories_equal_the_source(
    seed: int, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = request.getfixturevalue("newest_database" if seed % 2 else "database")
    server = request.getfixturevalue("newest_postgres" if seed % 2 else "postgres")
    monkeypatch.setenv("TEST_DB", url)

    history(seed, url, tmp_path, 4, server)

    equals_the_source(tmp_path, url)
