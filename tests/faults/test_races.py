"""ONCE: of two runs of one pipeline at once, one does the work and the other stops with a clear error."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.properties.world import World

import frazil
from frazil.engine import run as engine_run
from frazil.errors import BusyError
from frazil.lake.commit import Batch
from frazil.lake.heads import head
from frazil.lake.trouble import told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

RUN = """
import frazil, sys
try:
    frazil.run(frazil.load(sys.argv[1]))
except frazil.FrazilError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.mark.fault
def test_of_two_processes_one_is_told_that_the_other_runs(spark: SparkSession, tmp_path: Path) -> None:
    world = World.at(tmp_path / "world", "hard").draw_evenly(range(3), runs=1)
    world.deliver(0)
    environment = {**os.environ, "FRAZIL_DRIVER_MEMORY": "1g", "TZ": "UTC"}
    command = [sys.executable, "-c", RUN, str(world.folder)]

    both = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=300)[1].decode() for process in both]

    assert sorted(process.returncode for process in both) == [0, BusyError.exit_code]
    assert any("is held by another run" in text for text in said)
    assert world.differences(spark) == []


def test_of_two_batches_from_one_head_only_one_is_published(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: the compare-and-swap refuses the second; nothing of it is visible."""
    world = World.at(tmp_path / "world", "hard")
    session = world.session(spark)
    path = ("lake", "marts", "race")
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.marts")
    session.sql("CREATE TABLE lake.marts.race (n int) USING iceberg")
    for round_ in range(2):  # a table without a snapshot, and one with
        base = head(session, "lake.marts.race")
        with (
            Batch(session, path, base, {"batch": 2 * round_ + 1}) as first,
            Batch(session, path, base, {"batch": 2 * round_ + 2}) as second,
        ):
            first.append(session.sql(f"SELECT {2 * round_ + 1} AS n"))
            second.append(session.sql(f"SELECT {2 * round_ + 2} AS n"))
            first.publish()
            with pytest.raises(BusyError, match="nothing of this batch is visible"):
                second.publish()

    rows = session.table("lake.marts.race").toArrow().column("n").to_pylist()
    assert sorted(rows) == [1, 3]
    assert head(session, "lake.marts.race").batch == 3
    assert head(session, "lake.marts.race").branches == ()


def test_a_run_taken_for_dead_by_another_is_told_so(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: its branch is dropped under its feet, and it stops with a clear error; the other one goes on."""
    world = World.at(tmp_path / "world", "hard")
    session, path = world.session(spark), ("lake", "marts", "race")
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.marts")
    session.sql("CREATE TABLE lake.marts.race (n int) USING iceberg")

    with Batch(session, path, head(session, "lake.marts.race"), {"batch": 1}) as slow:
        with Batch(session, path, head(session, "lake.marts.race"), {"batch": 1}) as other:
            other.append(session.sql("SELECT 2 AS n"))
            other.publish()
        with pytest.raises(Exception, match="does not exist") as caught:
            slow.append(session.sql("SELECT 1 AS n"))

    assert isinstance(told(caught.value), BusyError)
    assert session.table("lake.marts.race").toArrow().column("n").to_pylist() == [2]


@contextlib.contextmanager
def no_lock(_: object) -> Iterator[None]:
    """Let everybody in, as if the runs were on two machines."""
    yield


@pytest.mark.parametrize("race", [0, *(pytest.param(race, marks=pytest.mark.laws) for race in range(1, 10))])
def test_without_the_lock_the_lake_ends_as_after_one_run(
    race: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE: two runs at once on two machines, where no lock reaches."""
    world = World.at(tmp_path / "world", "hard", "close").draw_evenly(range(race, race + 3), runs=2)
    world.deliver(0)
    world.run(spark)
    world.deliver(1)
    monkeypatch.setattr(engine_run, "lock", no_lock)
    sessions = [world.session(spark), world.session(spark)]
    failures: list[BaseException] = []

    def one(session: SparkSession) -> None:
        try:
            frazil.run(frazil.load(world.folder), spark=session)
        except BaseException as error:  # noqa: BLE001 - all of them are looked at below
            failures.append(error)

    threads = [threading.Thread(target=one, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [error for error in failures if not isinstance(error, BusyError)] == []
    world.run(spark)
    assert world.differences(spark) == []
