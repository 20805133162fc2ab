"""Ctrl-C, SIGTERM, a closed terminal: one line, the right exit code, nothing left behind, and ONCE holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from random import Random
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.faults.terminal import CTRL_C, Command
from tests.properties.world import World

import frazil
from frazil.api import RunOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.report import GoldReport, TableReport
    from frazil.steps import Step

NEVER_SAID = ("Traceback", "bug in Frazil", "Exception", "reentrant", "Aborted")


def world_at(folder: Path, runs: int = 1) -> World:
    """Make a world of some deliveries, after the first has arrived."""
    world = World.at(folder / "world", "hard", "close", gold=True).draw_evenly(range(3), runs=runs)
    world.deliver(0)
    return world


def assert_clean(command: Command, code: int, line: str) -> None:
    assert command.end() == code, command.said
    assert [word for word in NEVER_SAID if word in command.said] == []
    assert command.said.count(line) == 1
    assert command.left_behind() == []


@pytest.mark.fault
@pytest.mark.parametrize("moment", [pytest.param("start Spark", marks=pytest.mark.laws), "apply to"])
def test_ctrl_c_in_a_terminal_ends_a_run(moment: str, spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: the next run ends as if there had been no other."""
    world = world_at(tmp_path)
    command = Command.start(tmp_path, ["run", f"{world.folder}"], terminal=True)

    command.hear(moment)
    if moment == "start Spark":
        while not psutil.Process(command.process.pid).children():
            assert command.process.poll() is None
    command.press(CTRL_C)

    assert_clean(command, 130, "interrupted; what was published stays, run again to go on")
    world.run(spark)
    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()


@pytest.mark.fault
def test_sigterm_to_the_process_alone_ends_its_java_too(spark: SparkSession, tmp_path: Path) -> None:
    world = world_at(tmp_path)
    command = Command.start(tmp_path, ["run", f"{world.folder}"], terminal=False)

    command.hear("normalize")
    command.process.terminate()

    assert_clean(command, 143, "terminated; what was published stays, run again to go on")
    world.run(spark)
    assert world.differences(spark) == []


@pytest.mark.fault
@pytest.mark.parametrize("number", [pytest.param(signal.SIGHUP, marks=pytest.mark.laws), signal.SIGKILL])
def test_java_and_its_folders_go_when_the_terminal_or_the_process_does(number: signal.Signals, tmp_path: Path) -> None:
    command = Command.start(tmp_path, ["run", f"{world_at(tmp_path).folder}"], terminal=True)
    command.hear("read")

    if number is signal.SIGHUP:
        os.close(command.ear)
        assert command.process.wait(60) == 129
    else:
        command.process.kill()

    assert command.left_behind() == []


@pytest.mark.laws
@pytest.mark.fault
def test_a_watch_ends_its_run_at_the_first_signal_and_is_interrupted_by_the_second(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = world_at(tmp_path, runs=2)
    command = Command.start(tmp_path, ["watch", f"{world.folder}"], terminal=True)
    command.hear("normalize")
    command.press(CTRL_C)
    assert_clean(command, 0, "stopped; everything that was begun is done")

    world.deliver(1)
    command = Command.start(tmp_path, ["watch", f"{world.folder}"], terminal=True)
    command.hear("normalize")
    command.press(CTRL_C)
    command.hear("once more to interrupt it")
    time.sleep(0.4)  # closer together they are one press
    command.press(CTRL_C)
    assert_clean(command, 130, "interrupted; what was published stays, run again to go on")
    world.run(spark)
    assert world.differences(spark) == []


@pytest.mark.process
@pytest.mark.parametrize("terminal", [True, False])
def test_an_unanswered_rebuild_shows_its_plan(tmp_path: Path, *, terminal: bool) -> None:
    world = world_at(tmp_path)
    command = Command.start(tmp_path, ["run", "--full-refresh", f"{world.folder}"], terminal=terminal)

    if terminal:
        command.hear("[y/N]")
        command.press(b"\x04")
    else:
        assert command.process.stdin
        command.process.stdin.close()

    assert command.end() == 2
    assert "things: silver and marts.hard (0 rows), marts.close (0 rows), from 0 batches" in command.said
    assert "nothing was rebuilt; it would have been 1 table" in command.said
    assert "--yes" in command.said
    assert "Aborted" not in command.said


@pytest.mark.process
def test_ctrl_c_at_a_question_aborts(tmp_path: Path) -> None:
    command = Command.start(tmp_path, ["run", "--full-refresh", f"{world_at(tmp_path).folder}"], terminal=True)

    command.hear("[y/N]")
    command.press(CTRL_C)

    assert_clean(command, 130, "interrupted")


@pytest.mark.long
def test_ctrl_c_ends_a_query_in_the_middle(tmp_path: Path, spark: SparkSession) -> None:
    world = world_at(tmp_path)
    world.run(spark)
    endless = "select sum(a.range * b.range) from range(1000000000) a, range(1000000000) b"
    command = Command.start(tmp_path, ["query", endless, f"{world.folder}"], terminal=True)

    command.listens()
    while not list(command.folder.iterdir()):
        assert command.process.poll() is None
    time.sleep(1)  # a folder that is made in the same instant is left to the next command, which sweeps it
    command.press(CTRL_C)

    assert_clean(command, 130, "interrupted")


@pytest.mark.long
@pytest.mark.spark
def test_in_python_an_interrupt_is_raised_and_the_session_can_be_used_on(spark: SparkSession, tmp_path: Path) -> None:
    class Interrupting:
        """Presses Ctrl-C when silver is about to be made."""

        def planned(self, steps: Sequence[Step]) -> None: ...

        def began(self, table: str, what: str) -> None:
            del table
            if what == "normalize":
                os.kill(os.getpid(), signal.SIGINT)

        def progressed(self, table: str, how_far: str) -> None: ...

        def ended(self, report: TableReport | GoldReport) -> None: ...

    world = world_at(tmp_path)
    session = world.session(spark)

    with pytest.raises(KeyboardInterrupt):
        frazil.run(frazil.load(world.folder), spark=session, options=RunOptions(listener=Interrupting()))

    assert session.range(3).count() == 3
    frazil.run(frazil.load(world.folder), spark=session)
    assert world.differences(spark) == []
    for table in ("bronze.things", "silver.things_changes", "marts.hard", "marts.close"):
        assert [row.name for row in session.sql(f"SELECT name FROM lake.{table}.refs").collect()] == ["main"]


@pytest.mark.fault
@pytest.mark.laws
def test_thirty_interruptions_at_random_moments_leave_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: run, rebuild, watch, check, maintain and query, cut off anywhere."""
    chance = Random(30)
    world = world_at(tmp_path, runs=31)
    commands = {
        "run": ["run"],
        "rebuild": ["run", "--full-refresh", "--yes"],
        "maintain": ["maintain"],
        "watch": ["watch"],
        "check": ["check"],
        "query": ["query", "select count(*) from marts.hard, marts.close"],
    }
    spare = Command.start(tmp_path, ["run", f"{world_at(tmp_path / 'spare').folder}"], terminal=False)
    began = time.monotonic()
    assert spare.end() == 0
    run_seconds = time.monotonic() - began
    part = {"check": 0.2, "query": 0.1, "watch": 1.3}
    # The first load is cut off six times, before there is anything to look at.
    order = ["run"] * 6 + [chance.choice([*commands]) for _ in range(24)]

    for number, name in enumerate(order):
        arguments = commands[name]
        command = Command.start(tmp_path, [*arguments, f"{world.folder}"], terminal=chance.random() < 0.6)
        command.listens()
        time.sleep(chance.uniform(0, run_seconds * part.get(name, 1.0)))
        sent = chance.choice([signal.SIGINT, signal.SIGTERM])
        for _ in range(2 if name == "watch" else 1):
            command.interrupt(sent)
            time.sleep(0.4)  # the second signal of a watch
        code = command.end()

        assert code in (0, 128 + sent), f"{number} {name}: {code} {command.said}"
        assert (code == 0) or command.said.count("run again to go on") == 1
        assert [word for word in NEVER_SAID if word in command.said] == [], f"{number} {name}: {command.said}"
        assert command.left_behind() == [], f"{number} {name}"
        if number == 5:
            world.run(spark)
        if number >= 5:
            world.deliver(number - 4)

    world.run(spark)
    for number in range(26, 31):
        world.deliver(number)
    world.run(spark)
    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()


CLOSED = """
import errno, os, signal, sys, threading
from frazil.cli.console import error_exit
from frazil.cli.interrupt import listen
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it, as nohup does
listen()
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGHUP)).start()
with error_exit():
    raise OSError(errno.EIO, "Input/output error")
"""


@pytest.mark.process
def test_a_terminal_that_cannot_be_written_to_before_its_signal_comes_is_a_closed_one() -> None:
    process = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, text=True, timeout=60, check=False)

    assert process.returncode == 128 + signal.SIGHUP
    assert [word for word in NEVER_SAID if word in process.stderr] == []


@pytest.mark.fault
def test_a_signal_after_the_end_changes_nothing(tmp_path: Path) -> None:
    """Python gives signals back while it ends, and a command that has done its work would die of one."""
    script = tmp_path / "ending.py"
    script.write_text(
        "import os, sys, time\nfrom frazil.cli import interrupt\n"
        "class Slow:\n    def __del__(self, write=os.write, sleep=time.sleep): write(2, b'ending\\n'); sleep(2)\n"
        "interrupt.listen()\ninterrupt.finish()\nsys.slow = Slow()\n",
        encoding="utf-8",
    )

    with subprocess.Popen([sys.executable, f"{script}"], stderr=subprocess.PIPE) as process:
        assert process.stderr
        assert process.stderr.readline() == b"ending\n"
        process.terminate()

    assert process.returncode == 0
