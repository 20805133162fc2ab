"""ONCE, NOTHING-LOST: random transactions while their audit log is captured, by captures that are killed.

The landed records, played back in plain Python, end in what the tables of the database hold.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from contextlib import suppress
from pathlib import Path
from random import Random
from time import sleep
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.parquet as pq
import pytest
from tests.sources.writers import KEYS, TABLES, Writers

from frazil.errors import SourceError
from frazil.sources.audit_log.capture import LogCapture
from frazil.sources.audit_log.database import audit_trigger
from frazil.spec import AuditLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.testing.postgres import PostgresServer

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["frazil.sources.audit_log.capture", "psycopg"])

Row = dict[str, Any]


def capture_of(url: str, xid: str | None) -> LogCapture:
    log: dict[str, Any] = {"url": url, "log": "public.log", "landing": "landing", "xid": xid, "old_data": "old_data"}
    return LogCapture(tuple(KEYS), tuple(AuditLog(table=table, **log) for table in KEYS))


def one_turn(folder: str, url: str, xid: str | None) -> None:
    with suppress(SourceError):  # the server may have ended
        capture_of(url, xid).land(Path(folder), lambda _: None)


def history(seed: int, url: str, folder: Path, server: PostgresServer | None = None) -> int:
    """Let writers write while captures land and are killed, and a server once; return how many captures were killed."""
    random, killed = Random(seed), 0
    xid = "audit_txid" if random.random() < 0.5 else None
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(TABLES)
        session.execute(audit_trigger("public.log", [*KEYS], rows=True))
    crash_at = random.randrange(6)
    with Writers(url, seed):
        for turn in range(6):
            process = PROCESSES.Process(target=one_turn, args=(f"{folder}", url, xid))
            process.start()
            if server and turn == crash_at:
                sleep(random.random() / 2)
                server.kill()
                server.start()
            elif random.random() < 0.6:
                process.join(random.random() / 4)
                os.kill(process.pid or 0, signal.SIGKILL) if process.is_alive() else None
            process.join(120)
            assert process.exitcode in (0, -signal.SIGKILL)
            killed += process.exitcode == -signal.SIGKILL
    for _ in range(1000):
        if capture_of(url, xid).land(folder, lambda _: None).records == 0:
            return killed
    pytest.fail("it never ends")


def landed(folder: Path, table: str) -> list[Row]:
    """Return the landed records of a table by their numbers; none is landed twice."""
    files = sorted((folder / "landing" / table).glob("*.parquet"))
    found = {int(row["audit_event_id"]): row for file in files for row in pq.read_table(file).to_pylist()}
    assert len(found) == sum(pq.read_metadata(file).num_rows for file in files)
    return [found[number] for number in sorted(found)]


def replayed(records: Sequence[Row], keys: Sequence[str]) -> dict[tuple[str, ...], Row]:
    """Play records back, strictly: an insert meets no row of its key, an update and a delete meet one."""
    rows: dict[tuple[str, ...], Row] = {}
    for record in records:
        new = json.loads(record["raw_data"] or "{}", parse_float=str)
        old = json.loads(record["old_data"] or "{}", parse_float=str)
        key, before = (tuple(f"{image.get(key)}" for key in keys) for image in (new, old or new))
        match record["audit_operation"]:
            case "I":
                assert key not in rows, record
                rows[key] = new
            case "U":
                del rows[before]
                rows[key] = new
            case "D":
                del rows[key]
            case "T":
                rows.clear()
    return rows


def equals_the_source(folder: Path, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        for table, keys in KEYS.items():
            texts = session.execute(f"SELECT to_jsonb(one)::text FROM {table} AS one".encode()).fetchall()
            there = [json.loads(text, parse_float=str) for (text,) in texts]
            expected = {tuple(f"{row[key]}" for key in keys): row for row in there}
            assert replayed(landed(folder, table), keys) == expected, table
        [count] = session.execute("SELECT count(*) FROM log").fetchone() or (0,)
    assert count == sum(len(landed(folder, table)) for table in KEYS)


@pytest.mark.fault
def test_a_capture_that_is_killed_lands_every_record_once(database: str, tmp_path: Path) -> None:
    history(3, database, tmp_path)

    equals_the_source(tmp_path, database)


@pytest.mark.laws
@pytest.mark.fault
@pytest.mark.parametrize("seed", range(100, 150))
def test_histories_equal_the_source(seed: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = request.getfixturevalue("newest_database" if seed % 2 else "database")
    server = request.getfixturevalue("newest_postgres" if seed % 2 else "postgres")

    history(seed, url, tmp_path, server)

    equals_the_source(tmp_path, url)
