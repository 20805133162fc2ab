"""ONCE: of two runs of one pipeline at once, one does the work and the other stops with a clear error."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.properties.world import World

import frazil
from frazil.catalog.trouble import translate_error
from frazil.errors import BusyError
from frazil.lake.commit import TableTransaction
from frazil.lake.refs import create_tag, head, show_snapshot
from frazil.lake.tables import ensure
from frazil.plan.layout import TableLayout
from frazil.runner import run as engine_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.iceberg.snapshot import TableSnapshot

PATH = ("lake", "marts", "race")
NAME = "`lake`.`marts`.`race`"
RUN = """
import frazil, sys
try:
    frazil.run(frazil.load(sys.argv[1]))
except frazil.FrazilError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.mark.fault
def test_a_second_process_fails_while_the_first_runs(spark: SparkSession, tmp_path: Path) -> None:
    world = World.at(tmp_path / "world", "hard").draw_evenly(range(3), runs=1)
    world.deliver(0)
    environment = {**os.environ, "FRAZIL_DRIVER_MEMORY": "1g", "TZ": "UTC"}
    command = [sys.executable, "-c", RUN, str(world.folder)]

    both = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=900)[1].decode() for process in both]

    assert sorted(process.returncode for process in both) == [0, BusyError.exit_code]
    assert any("is held by another run" in text for text in said)
    assert world.differences(spark) == []


def race(world: World, spark: SparkSession) -> SparkSession:
    """Open a session on a lake with an empty table to race for."""
    session = world.session(spark)
    ensure(session, TableLayout(path=PATH, columns={"n": "int", "said": "string"}))
    return session


def rows(session: SparkSession) -> list[int]:
    """Read what the table to race for holds."""
    found: list[int] = session.table("lake.marts.race").toArrow().column("n").to_pylist()
    return sorted(found)


def test_of_two_batches_from_one_head_only_one_is_published(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: the compare-and-swap refuses the second; nothing of it is visible."""
    session = race(World.at(tmp_path / "world", "hard"), spark)
    for round_ in range(2):  # a table without a snapshot, and one with
        base = head(session, NAME)
        with (
            TableTransaction(session, PATH, base, {"batch": 2 * round_ + 1}) as first,
            TableTransaction(session, PATH, base, {"batch": 2 * round_ + 2}) as second,
        ):
            first.append(session.sql(f"SELECT {2 * round_ + 1} AS N"))
            second.append(session.sql(f"SELECT {2 * round_ + 2} AS n"))
            first.publish()
            with pytest.raises(BusyError, match="nothing of this batch is visible"):
                second.publish()

    assert rows(session) == [1, 3]
    assert head(session, NAME).batch == 3
    assert head(session, NAME).branches == ()


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_batch_that_begins_after_another_was_published_is_refused(
    spark: SparkSession, tmp_path: Path, *, is_empty: bool
) -> None:
    """ONCE: the table's snapshot at the first read counts, not the begin of the branch."""
    session = race(World.at(tmp_path / "world", "hard"), spark)
    if not is_empty:
        write(session, head(session, NAME), 1)
    base = head(session, NAME)
    write(session, base, 2)

    with pytest.raises(BusyError, match="nothing of this batch is visible"):
        write(session, base, 3)

    assert rows(session) == ([2] if is_empty else [1, 2])


def test_a_batch_whose_base_has_expired_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: another run published, and an erase or an upkeep expired what this one had read before it wrote."""
    session = race(World.at(tmp_path / "world", "hard"), spark)
    write(session, head(session, NAME), 1)
    base = head(session, NAME)
    write(session, base, 2)
    session.sql(
        "CALL lake.system.expire_snapshots(table => 'marts.race', retain_last => 1, "
        "older_than => TIMESTAMP '2999-01-01 00:00:00')"
    )

    with pytest.raises(BusyError, match="nothing of this batch is visible"):
        write(session, base, 3)
    with pytest.raises(BusyError, match="expired snapshot"):
        show_snapshot(session, PATH, int(base.snapshot_id or 0))
    with pytest.raises(Exception, match="Cannot find snapshot") as reading:
        session.sql(f"SELECT * FROM {NAME} VERSION AS OF {base.snapshot_id}").collect()
    with pytest.raises(Exception, match="unknown snapshot") as marking:
        create_tag(session, PATH, "april", int(base.snapshot_id or 0))

    assert all(isinstance(translate_error(one.value), BusyError) for one in (reading, marking))
    assert rows(session) == [1, 2]
    assert head(session, NAME).branches == ()


def write(session: SparkSession, base: TableSnapshot, number: int) -> None:
    """Publish a batch of one row."""
    with TableTransaction(session, PATH, base, {"batch": number}) as batch:
        batch.append(session.sql(f"SELECT {number} AS n"))
        batch.publish()


def test_a_batch_is_published_whole_with_the_bookmark_of_its_end(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: deletes, rows, and a bookmark that changed on the way."""
    session = race(World.at(tmp_path / "world", "hard"), spark)
    write(session, head(session, NAME), 1)

    with TableTransaction(session, PATH, head(session, NAME), {"batch": 2}) as batch:
        batch.delete("t.n = 1")
        batch.append(session.sql("SELECT 2 AS n, 'two' AS said"))
        before = rows(session)
        batch.set_bookmark({"batch": 2, "more": True})
        published = batch.publish()

    assert before == [1]
    assert rows(session) == [2]
    assert published.bookmark == {"batch": 2, "more": True}
    assert head(session, NAME) == published


def test_a_run_with_a_dropped_branch_stops_with_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: its branch is dropped under its feet, and it stops with a clear error; the other one goes on."""
    session = race(World.at(tmp_path / "world", "hard"), spark)

    with TableTransaction(session, PATH, head(session, NAME), {"batch": 1}) as slow:
        slow.append(session.sql("SELECT 1 AS n"))
        with TableTransaction(session, PATH, head(session, NAME), {"batch": 1}) as other:
            other.append(session.sql("SELECT 2 AS n"))
            other.publish()
        with pytest.raises(Exception, match="does not exist") as caught:  # as when it happens during a write
            session.sql("SELECT 1 AS n, 'one' AS said").writeTo(slow.branch).append()
        with pytest.raises(BusyError, match="took this one for dead"):
            slow.append(session.sql("SELECT 1 AS n"))

    assert isinstance(translate_error(caught.value), BusyError)
    assert rows(session) == [2]


def test_of_two_changes_from_one_head_only_one_is_published(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: a change is invisible until it is published, and published only on top of its base snapshot."""
    session = race(World.at(tmp_path / "world", "hard"), spark)
    write(session, head(session, NAME), 1)
    base = head(session, NAME)
    [place] = session.sql(f"SELECT _file AS file_path, _pos AS pos FROM {NAME}").toArrow().to_batches()
    gone = pa.Table.from_batches([place])

    with (
        TableTransaction(session, PATH, base, {"batch": 2}) as first,
        TableTransaction(session, PATH, base, {"batch": 3}) as second,
    ):
        first.row_delta(pa.table({"N": [2]}), gone)
        second.row_delta(pa.table({"n": [3]}), gone)
        before = rows(session)
        published = first.publish()
        with pytest.raises(BusyError, match="nothing of this batch is visible"):
            second.publish()
    with TableTransaction(session, PATH, published, {"batch": 4}) as third:
        write(session, published, 5)
        third.row_delta(pa.table({"n": [4]}), gone)
        with pytest.raises(BusyError, match="nothing of this batch is visible"):
            third.publish()

    assert (before, rows(session)) == ([1], [2, 5])
    assert (published.summary["total-records"], published.summary["total-position-deletes"]) == ("2", "1")
    assert head(session, NAME).batch == 5
    assert head(session, NAME).branches == ()


def test_a_change_is_not_published_into_what_another_run_writes(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: Iceberg numbers the writes of all branches together, and takes no number that comes after a later one."""
    session = race(World.at(tmp_path / "world", "hard"), spark)
    write(session, head(session, NAME), 1)
    base = head(session, NAME)

    with (
        TableTransaction(session, PATH, base, {"batch": 2}) as first,
        TableTransaction(session, PATH, base, {"batch": 3}) as second,
    ):
        first.row_delta(pa.table({"n": [2]}))
        second.append(session.sql("SELECT 3 AS n"))
        with pytest.raises(BusyError, match="nothing of this batch is visible"):
            first.publish()
        second.publish()

    assert rows(session) == [1, 3]


def test_of_two_first_changes_of_a_table_only_one_is_published(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: also where there was nothing to compare with."""
    session = race(World.at(tmp_path / "world", "hard"), spark)
    base = head(session, NAME)

    with (
        TableTransaction(session, PATH, base, {"batch": 1}) as first,
        TableTransaction(session, PATH, base, {"batch": 2}) as second,
    ):
        first.row_delta(pa.table({"n": [1]}))
        second.row_delta(pa.table({"n": [2]}))
        published = first.publish()
        with pytest.raises(BusyError, match="nothing of this batch is visible"):
            second.publish()

    assert (base.snapshot_id, rows(session)) == (None, [1])
    assert head(session, NAME) == published


def test_a_branch_that_was_recreated_under_a_batch_is_not_published(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: Iceberg does so where a branch is dropped during a write; its deletes would be lost."""
    session = race(World.at(tmp_path / "world", "hard"), spark)
    write(session, head(session, NAME), 1)
    base = head(session, NAME)

    with TableTransaction(session, PATH, base, {"batch": 2}) as batch:
        batch.delete("t.n = 1")
        batch.append(session.sql("SELECT 2 AS n"))
        branch = head(session, NAME).branches[0]
        session.sql(f"ALTER TABLE {NAME} CREATE OR REPLACE BRANCH {branch} AS OF VERSION {base.snapshot_id}")
        session.sql("SELECT 2 AS n, 'two' AS said").writeTo(batch.branch).append()
        with pytest.raises(BusyError, match="took this one for dead"):
            batch.publish()

    assert rows(session) == [1]


@contextlib.contextmanager
def no_lock(_: object) -> Iterator[None]:
    """Let everybody in, as if the runs were on two machines."""
    yield


@pytest.mark.long
@pytest.mark.parametrize("race", [0, *(pytest.param(race, marks=pytest.mark.laws) for race in range(1, 10))])
def test_without_the_lock_the_lake_ends_as_after_one_run(
    race: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE: two runs at once on two machines, where no lock reaches."""
    world = World.at(tmp_path / "world", "hard", "close").draw_evenly(range(race, race + 3), runs=2)
    world.deliver(0)
    world.run(spark)
    world.deliver(1)
    monkeypatch.setattr(engine_run, "run_lock", no_lock)
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

    errors = [error for failure in failures if isinstance(failure, frazil.RunFailedError) for error in failure.errors]
    assert [error for error in errors if not isinstance(error, BusyError)] == []
    assert all(isinstance(failure, frazil.RunFailedError) for failure in failures)
    world.run(spark)
    assert world.differences(spark) == []
