"""HANDOVER: tables that are read again while they are written, by captures that die, are those of the server."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.sources.reloads import ALL, NAMES, allow
from tests.sources.replay import declare, land, replayed
from tests.sources.test_postgres_histories import PROCESSES, equals_the_source, settled
from tests.sources.writers import KEYS, TABLES, Writers

from frazil import api
from frazil.failpoints import FAILPOINTS
from frazil.sources.postgres.errors import ServerError, SlotLostError
from frazil.sources.postgres.reload import known_and_gone

if TYPE_CHECKING:
    import psycopg

pytestmark = pytest.mark.server

DEATHS = tuple(name for name in FAILPOINTS if name.startswith("capture.reload_"))


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


@pytest.mark.fault
@pytest.mark.parametrize("place", DEATHS)
def test_a_restarted_slot_is_completed_after_each_kill(
    place: str, session: psycopg.Connection[Any], url: str, tmp_path: Path
) -> None:
    session.execute(TABLES)
    declare(tmp_path, ALL)
    allow(tmp_path)
    with Writers(url, 5):
        land(tmp_path)
        session.execute("SELECT pg_drop_replication_slot('frazil')")
        assert die(tmp_path, url, place, NAMES) == -signal.SIGKILL
        try:
            errors = [*land(tmp_path).failed.values()]
        except SlotLostError as lost:
            errors = [lost]
        asked = [name for error in errors for name in re.findall("--reload ([a-z]+)", error.hint or "")]
        assert len(asked) == (2 if place.endswith("shown") else 3), "a table that was read again needs it no more"
        api.reload(tmp_path, asked)
        settled(tmp_path)
    settled(tmp_path)

    equals_the_source(tmp_path, url)
