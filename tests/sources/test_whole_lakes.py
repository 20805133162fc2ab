"""ONCE, HANDOVER, NOTHING-LOST of whole lakes: writers write while captures, runs and the server are killed.

In the end the marts hold what the database holds, and histories hold what the oracle makes of all that was landed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from threading import Timer
from typing import TYPE_CHECKING, Any, Literal

import psycopg
import pytest
from tests.sources import replay
from tests.sources.test_audit_log_histories import landed as logged
from tests.sources.writers import KEYS, TABLES, Writers

import frazil
from frazil.errors import SourceError
from frazil.failpoints import FAILPOINTS
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.sources.audit_log.database import audit_trigger
from frazil.spark.session import spark_session
from frazil.testing.oracle import Change, history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from frazil.testing.postgres import PostgresServer

Kind = Literal["postgres", "audit_log"]
Row = dict[str, Any]

CAPTURING = tuple(name for name in FAILPOINTS if name.startswith("capture.") and "reload" not in name)
RUNNING = tuple(name for name in FAILPOINTS if name.startswith(("bronze.", "silver.", "mart.", "certificate.")))

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.sources.replay", "frazil.sources.postgres.turn"])


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


COLUMNS: dict[str, dict[str, tuple[str, Callable[[str], Any]]]] = {
    "public.plain": {"id": ("int", int), "qty": ("int", int), "note": ("string", str)},
    "public.pair": {"a": ("int", int), "b": ("string", str), "doc": ("string", str), "at": ("timestamp", _time)},
    "public.whole": {"id": ("int", int), "price": ("decimal(12,2)", Decimal), "doc": ("string", str)},
}
"""Table -> column -> its type in the lake, and how its text is read."""

SOURCE: dict[Kind, str] = {
    "postgres": '{{kind: postgres, url: "${{env:TEST_DB}}", table: {table}, landing: ./landing}}',
    "audit_log": '{{kind: audit_log, url: "${{env:TEST_DB}}", log: public.log, table: {table}, landing: ./landing, '
    "old_data: old_data{xid}}}",
}


def declare(folder: Path, kind: Kind, tables: Sequence[str], *, xid: bool) -> None:
    lines = ["pipeline: shop", "lake: {warehouse: ./lake}", "tables:"]
    for table in tables:
        source = SOURCE[kind].format(table=table, xid=", xid: audit_txid" if xid else "")
        columns = ", ".join(f"{{name: {name}, type: '{kind}'}}" for name, (kind, _) in COLUMNS[table].items())
        lines += [
            f"  - name: {table.removeprefix('public.')}",
            f"    source: {source}",
            f"    keys: [{', '.join(KEYS[table])}]",
            f"    columns: [{columns}]",
            "    marts: [{kind: current}, {kind: history}]",
        ]
    (folder / "frazil.yml").write_text("\n".join(lines), encoding="utf-8")


def live(seed: int, kind: Kind, url: str, folder: Path, server: PostgresServer) -> list[str]:
    """Let writers write while captures and runs take turns and die, and the server once; return what died where."""
    random = Random(seed)
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(TABLES)
        if kind == "audit_log":
            session.execute(audit_trigger("public.log", [*KEYS], rows=True))
    xid = kind == "audit_log" and random.random() < 0.5
    early = [table for table in KEYS if random.random() < 0.7 or table == "public.plain"]
    declare(folder, kind, early, xid=xid)
    turns = [run_and_die, *random.choices((run_and_die, capture_and_die), k=3), run_and_die]
    crash = random.randrange(len(turns))
    died = []
    with Writers(url, seed):
        for number, turn in enumerate(turns):
            died += turn(random, folder, url, server if number == crash else None)
            if number == 1:
                declare(folder, kind, [*KEYS], xid=xid)
    return died


def run_and_die(random: Random, folder: Path, url: str, server: PostgresServer | None) -> list[str]:
    """Run in a process of its own, which is killed at a place if it comes there, or after some seconds."""
    place = random.choice((*RUNNING, *RUNNING, *CAPTURING, ""))
    run = subprocess.Popen(
        [sys.executable, "-m", "frazil", "run", f"{folder}"],
        env={**os.environ, "FRAZIL_FAILPOINT": place, "TEST_DB": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with meanwhile(random, server), later(2 + 8 * random.random(), run.pid, is_wanted=not place):
        said, _ = run.communicate(timeout=900)
    allowed = {0, -signal.SIGKILL} | ({SourceError.exit_code} if server else set())
    assert run.returncode in allowed, said.decode()
    return [f"run {place}"] if run.returncode == -signal.SIGKILL else []


def capture_and_die(random: Random, folder: Path, url: str, server: PostgresServer | None) -> list[str]:
    """Capture in a process of its own, which is killed at a place if it comes there, or after a moment."""
    place = random.choice((*CAPTURING, ""))
    capture = PROCESSES.Process(target=capture_once, args=(f"{folder}", url, place))
    capture.start()
    with meanwhile(random, server), later(random.random(), capture.pid or 0, is_wanted=not place):
        capture.join(120)
    assert capture.exitcode in (0, -signal.SIGKILL)
    return [f"capture {place}"] if capture.exitcode else []


def capture_once(folder: str, url: str, place: str) -> None:
    os.environ |= {"FRAZIL_FAILPOINT": place, "TEST_DB": url}
    with suppress(SourceError):  # the server may have died
        replay.land(Path(folder))


@contextmanager
def meanwhile(random: Random, server: PostgresServer | None) -> Iterator[None]:
    """Let the server end as if its machine had stopped, and start again, if there is one."""
    crash = Timer(random.random() * 4, server.kill) if server else None
    if crash:
        crash.start()
    yield
    if server and crash:
        crash.join()
        server.start()


@contextmanager
def later(seconds: float, pid: int, *, is_wanted: bool) -> Iterator[None]:
    """Kill a process, and those it began, after some seconds if it still lives."""
    kill = Timer(seconds, _kill, (pid,))
    if is_wanted:
        kill.start()
    yield
    kill.cancel()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL) if os.getpgid(pid) == pid else os.kill(pid, signal.SIGKILL)


def settle(folder: Path) -> None:
    """Land what is missing, and run until nothing is left; the server takes a moment to see that a reader is gone."""
    for _ in range(1000):
        landed = replay.land(folder)
        if landed.busy is None and landed.files == 0:
            break
    pipeline = frazil.load(folder)
    for _ in range(5):
        if frazil.run(pipeline, spark=spark_session(pipeline)).steps == 0:
            return
    pytest.fail("it never ends")


def changes_of(kind: Kind, folder: Path, table: str) -> list[Change]:
    """Return what happened to a table by what was landed, in order: a changed key is a delete and an insert."""
    records = _replicated(folder, table) if kind == "postgres" else _logged(folder, table)
    there: dict[tuple[Any, ...], Row] = {}
    found: list[Change] = []
    for number, (op, old, new, time) in enumerate(records):
        change = partial(_change, table, number, time)
        if op == "t":
            found += [change(key, None) for key in there]
            there.clear()
            continue
        key = tuple((new or old)[name] for name in KEYS[table])
        before = tuple(old.get(name, value) for name, value in zip(KEYS[table], key, strict=True)) if new else key
        values = {**there.pop(before, {}), **new} if new else None
        if before != key or values is None:
            there.pop(before, None)
            found.append(change(before, None))
        if values is not None:
            there[key] = values
            found.append(change(key, values))
    return found


def _change(table: str, number: int, time: datetime, key: tuple[Any, ...], values: Row | None) -> Change:
    known = dict(zip(KEYS[table], key, strict=True)) if values is None else values
    return Change(key, (number,), "", 1, values is None, known, time)


def _replicated(folder: Path, table: str) -> Iterator[tuple[str, Row, Row, datetime]]:
    for record in replay.records(folder, table):
        left_out = json.loads(record["__unchanged"] or "[]")
        named = {name: text for name, text in record.items() if name in COLUMNS[table] and name not in left_out}
        old = {name: record.get(f"__old_{name}") for name in KEYS[table]}
        old = {} if None in old.values() else old
        op, time = record["__op"], _time(record["__committed_at"])
        yield op, _typed(table, named if op == "d" else old), {} if op in "dt" else _typed(table, named), time


def _logged(folder: Path, table: str) -> Iterator[tuple[str, Row, Row, datetime]]:
    for record in logged(folder, table):
        old, new = (
            _typed(table, json.loads(record[name] or "{}", parse_float=str)) for name in ("old_data", "raw_data")
        )
        op = record["audit_operation"].lower()
        yield op, (old or new) if op == "d" else old, {} if op in "dt" else new, _time(f"{record['audit_timestamp']}")


def _typed(table: str, texts: Row) -> Row:
    return {
        name: None if text is None else COLUMNS[table][name][1](f"{text}")
        for name, text in texts.items()
        if name in COLUMNS[table]
    }


def differences(kind: Kind, folder: Path, url: str) -> list[str]:
    """Compare the marts with the database, and histories with the oracle."""
    pipeline = frazil.load(folder)
    found = [f"{finding}" for finding in check(pipeline) if finding.ok is False]
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        for table in KEYS:
            names = ", ".join(f'"{name}"' for name in COLUMNS[table])
            mart = f"marts.{table.removeprefix('public.')}"
            wanted = session.execute(f"SELECT {names} FROM {table}".encode()).fetchall()
            found += _compare(table, query(pipeline, f"SELECT {names} FROM {mart}").rows, wanted)
            versions = ("valid_from", "valid_to", "is_current")
            rows = query(pipeline, f"SELECT {names}, {', '.join(versions)} FROM {mart}_history").rows
            expected = history(changes_of(kind, folder, table), [*COLUMNS[table]], [*COLUMNS[table]])
            every = (*COLUMNS[table], *versions)
            found += _compare(f"{mart}_history", rows, [tuple(row[name] for name in every) for row in expected])
    return found


def _compare(name: str, found: Sequence[Any], expected: Sequence[Any]) -> list[str]:
    left, right = ({repr(tuple(map(_shown, row))) for row in rows} for rows in (found, expected))
    many = [] if len(found) == len(expected) else [f"{name}: {len(found)} rows, not {len(expected)}"]
    return [*many, *(f"{name}: found {row[:300]}" for row in sorted(left - right)[:3])] + [
        f"{name}: missing {row[:300]}" for row in sorted(right - left)[:3]
    ]


def _shown(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Path:
    """An empty folder, and Java runs."""
    del spark
    return tmp_path


@pytest.mark.fault
@pytest.mark.parametrize("kind", ["postgres", pytest.param("audit_log", marks=pytest.mark.laws)])
def test_a_lake_that_died_again_and_again_holds_what_the_database_holds(
    kind: Kind, lake: Path, postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DB", database)

    died = live(3, kind, database, lake, postgres)

    settle(lake)
    assert any(place.startswith("run") for place in died)
    assert differences(kind, lake, database) == []


@pytest.mark.laws
@pytest.mark.fault
@pytest.mark.parametrize("kind", ["postgres", "audit_log"])
@pytest.mark.parametrize("seed", range(100, 150))
def test_lakes_hold_what_the_database_holds(
    seed: int, kind: Kind, lake: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = request.getfixturevalue("newest_database" if seed % 2 else "database")
    server = request.getfixturevalue("newest_postgres" if seed % 2 else "postgres")
    monkeypatch.setenv("TEST_DB", url)

    live(seed, kind, url, lake, server)

    settle(lake)
    assert differences(kind, lake, url) == []
