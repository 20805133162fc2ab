"""Fixtures of all tests: one Spark session over a lake of its own, and one PostgreSQL server."""

from __future__ import annotations

import gc
import os
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import DataFrame

from frazil.older_spark import is_older_spark, to_arrow
from frazil.spark.session import spark_session
from frazil.spec import DmsFiles, Lake, Pipeline, Table
from frazil.spec.model.stores import ENVIRONMENT
from frazil.testing.postgres import find_programs, postgres_server
from frazil.testing.s3 import s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.shop import Shop

    from frazil.testing.postgres import PostgresServer
    from frazil.testing.s3 import S3Server


# No test is timed: an example may be slow on a busy machine. `make laws` draws many examples.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.register_profile("few", untimed, max_examples=25)
settings.register_profile("many", untimed, max_examples=400)
settings.load_profile("few")

_NUMBERS = count(1)

# What tests ask of Spark 4 themselves.
if is_older_spark():
    DataFrame.toArrow = to_arrow  # type: ignore[method-assign, assignment]

# The login that a shell has is for no store of the tests.
for _name in (name for names in ENVIRONMENT.values() for name in names):
    os.environ.pop(_name, None)

# What lives is seldom garbage: the collector looks a thirtieth as often, and never again at what was collected.
gc.set_threshold(20_000, 10, 10)

SERVERS = {"postgres", "newest_postgres", "kafka", "broker", "s3"}
"""Fixtures that start a real server: their tests are run by ``make e2e``."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a JVM and what needs a server by the fixtures it asks for: ``-m "not spark"`` starts no JVM."""
    for item in items:
        asked = {*getattr(item, "fixturenames", ())}
        if "spark" in asked:
            item.add_marker("spark")
        if asked & SERVERS:
            item.add_marker("server")


def pytest_collection_finish() -> None:
    """Skip tests and modules, which live until the end."""
    gc.freeze()


NOT_PURE = {"spark", "process", "server", "fault"}
"""Markers of tests that may start a process."""
_pure: list[str] = []
"""The test that is being run, if it may not."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Hold tests without a marker of :data:`NOT_PURE` to starting no process."""
    if NOT_PURE.isdisjoint(marker.name for marker in item.iter_markers()):
        _pure.append(item.nodeid)
    try:
        return (yield)
    finally:
        _pure.clear()


def _refuse_processes(event: str, started: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and _pure:
        raise AssertionError(f"{_pure[0]} starts {started[0]}: mark it with process or server")


sys.addaudithook(_refuse_processes)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests, small, and quick to start unless the long ones run; tests part by namespace."""
    is_short = all(item.get_closest_marker("laws") is None for item in request.session.items)
    table = Table(name="none", source=DmsFiles(path=("none",)), keys=("id",))
    pipeline = Pipeline(pipeline="tests", lake=Lake(warehouse="lake"), tables=(table,))
    session = spark_session(pipeline.at(tmp_path_factory.mktemp("tests")), memory="2g", short=is_short)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The PostgreSQL of this machine, else the wheel's: one server for all tests, wal_level=logical."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def newest_postgres() -> Iterator[PostgresServer]:
    """The newest available PostgreSQL, from the wheel."""
    with postgres_server(max(find_programs(), key=lambda found: found.major)) as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """One S3 server for all tests; each makes buckets of its own."""
    with s3_server() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """Address of an empty database; slots on it are dropped afterwards."""
    yield from new_database(postgres)


@pytest.fixture
def newest_database(newest_postgres: PostgresServer) -> Iterator[str]:
    """The same, on the newest PostgreSQL there is."""
    yield from new_database(newest_postgres)


def new_database(server: PostgresServer) -> Iterator[str]:
    """Make a database, yield its address and drop it with its slots."""
    name = f"test_{next(_NUMBERS)}"
    with psycopg.connect(server.url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
    yield server.url_of(name)
    with psycopg.connect(server.url, autocommit=True) as session:
        session.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,))
        slots = session.execute("SELECT slot_name FROM pg_replication_slots WHERE database = %s", (name,)).fetchall()
        for (slot,) in slots:
            session.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    """A shop without orders."""
    from tests.shop import declared  # noqa: PLC0415

    del spark  # only there so that Java runs
    columns = "{name: id, type: bigint}, {name: ts, type: timestamp}, {name: note, type: string}"
    return declared(tmp_path, keys="id", columns=columns, marts="{kind: current}, {kind: history}")
