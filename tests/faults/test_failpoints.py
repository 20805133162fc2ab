"""ONCE and NOTHING-LOST: a run that dies anywhere, and is run again, ends as if it had not died."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from random import Random
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.failing import run_fails_with
from tests.properties.strategies import READERS, STRATEGIES, go_by
from tests.properties.world import World

from frazil.failpoints import FAILPOINTS, FailpointReached

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.plan.policy import Strategy

ELSEWHERE = (
    "fold.",
    "maintain.",
    "certificate.",
    "capture.",
    "dump.",
    "replay.",
    "erase.",
    "cut.",
    "rollback.",
    "treat.",
)
IN_A_RUN = tuple(name for name in FAILPOINTS if not name.startswith(ELSEWHERE))
"""In such an order that a run which begins where the one before died still comes to its own."""

RUN = """
import frazil, sys
from frazil.runner.options import RunOptions
from frazil.spark.session import spark_session
from frazil.plan.policy import Policy
pipeline = frazil.load(sys.argv[1])
policy = Policy(strategy=sys.argv[2], reader=sys.argv[3], compact_every=2)
frazil.run(pipeline, spark=spark_session(pipeline, memory="1g", short=True), options=RunOptions(policy=policy))
"""

BY_STRATEGY = (
    "row_delta",
    pytest.param("delete_append", marks=pytest.mark.laws),
    pytest.param("overwrite", marks=pytest.mark.laws),
)

BOTH_SIDES_OF_PUBLISH = (
    "bronze.before_publish",
    "bronze.after_publish",
    "quarantine.after_publish",
    "silver.after_publish",
    "mart.before_rows",
    "gold.before_publish",
)


def start(world: World, failpoint: str = "", strategy: Strategy = "row_delta") -> subprocess.Popen[bytes]:
    """Start a run in a process of its own, that applies batches with one strategy."""
    environment = {**os.environ, "FRAZIL_FAILPOINT": failpoint}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(world.folder), strategy, READERS[strategy]],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def kill_at(world: World, failpoint: str, strategy: Strategy = "row_delta") -> None:
    """Run until the failpoint, where Python and Java are killed."""
    process = start(world, failpoint, strategy)
    _, said = process.communicate(timeout=900)
    assert process.returncode == -signal.SIGKILL, f"{failpoint} was not reached\n{said.decode()}"


@pytest.mark.long
@pytest.mark.parametrize("strategy", BY_STRATEGY)
def test_a_run_that_raises_at_every_failpoint_in_turn_ends_right(
    strategy: Strategy, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE: every failpoint is really reached, and each next run takes up what the one before left."""
    policy, computes = go_by(strategy), strategy != "row_delta"
    world = World.at(tmp_path / "world", "hard", "close", gold=True, bad=True, policy=policy, computes=computes)
    world.draw_evenly(range(2), runs=4)
    world.deliver(0)
    world.run(spark)
    world.deliver(1)

    for name in IN_A_RUN:
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{name}:raise")
        with run_fails_with(FailpointReached, match=name):
            world.run(spark)
        if name == "quarantine.after_publish":
            world.deliver(2)  # more arrives while the lake is half done
        elif name == "mart.after_publish":
            world.deliver(3)  # files are merged where a batch was applied
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    world.run(spark)

    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()
    assert world.run(spark).steps == 0


def test_a_live_view_is_there_as_soon_as_its_table_has_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE: a run that died just after the commit has left nothing undone."""
    world = World.at(tmp_path / "world", "soft").draw_evenly(range(2), runs=1)
    world.deliver(0)
    monkeypatch.setenv("FRAZIL_FAILPOINT", "mart.after_publish:raise")
    with run_fails_with(FailpointReached):
        world.run(spark)
    monkeypatch.delenv("FRAZIL_FAILPOINT")

    assert world.run(spark).steps == 0

    shown = world.session(spark).table("lake.marts.soft_live").toArrow().to_pylist()
    living = {(row["h"], row["id"]) for row in world.expected("soft") if not row["is_deleted"]}
    assert {(row["h"], row["id"]) for row in shown} == living


@pytest.mark.fault
@pytest.mark.parametrize(
    ("strategy", "failpoints"),
    [
        ("row_delta", ("bronze.after_publish", "mart.before_rows")),
        *(
            pytest.param(strategy, BOTH_SIDES_OF_PUBLISH, marks=pytest.mark.laws)
            for strategy in ("row_delta", "delete_append", "overwrite")
        ),
    ],
)
def test_a_run_killed_again_and_again_ends_right(
    strategy: Strategy, failpoints: tuple[str, ...], spark: SparkSession, tmp_path: Path
) -> None:
    """ONCE: SIGKILL of Python and Java, each run dying a step further than the one before."""
    world = World.at(tmp_path / "world", "hard", "close", gold=True, bad=True).draw_evenly(range(2), runs=2)
    world.deliver(0)
    world.run(spark)
    world.deliver(1)

    for name in failpoints:
        kill_at(world, name, strategy)
    world.run(spark)

    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()


ERASE = """
import frazil, sys
from frazil import api
from frazil.spark.session import spark_session
pipeline = frazil.load(sys.argv[1])
api.erase(pipeline, "things", keys=sys.argv[2:], spark=spark_session(pipeline, memory="1g", short=True))
"""


@pytest.mark.fault
@pytest.mark.parametrize(
    "failpoints",
    [
        ("erase.before_publish", "erase.after_rewrite"),
        pytest.param(tuple(name for name in FAILPOINTS if name.startswith("erase.")), marks=pytest.mark.laws),
    ],
)
def test_an_erase_killed_again_and_again_ends_right(
    failpoints: tuple[str, ...], spark: SparkSession, tmp_path: Path
) -> None:
    """ERASE: SIGKILL of Python and Java, each erase dying a step further; a run between them changes nothing."""
    world = World.at(tmp_path / "world", "hard", "close", gold=True).draw_evenly(range(4), runs=2)
    world.deliver(0)
    world.run(spark)
    keys = world.draw_keys(Random(1), 0.4)

    for name in failpoints:
        words = [json.dumps({"h": history, "id": key}) for history, key in keys]
        process = subprocess.Popen(
            [sys.executable, "-c", ERASE, str(world.folder), *words],
            env={**os.environ, "FRAZIL_FAILPOINT": name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        _, said = process.communicate(timeout=900)
        assert process.returncode == -signal.SIGKILL, f"{name} was not reached\n{said.decode()}"
    world.deliver(1)
    world.run(spark)
    report = world.erase(spark, keys[:1])
    world.erased |= {*keys}

    assert report.resumed
    assert report.proof is not None
    assert report.proof.is_clean
    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()


@pytest.mark.fault
@pytest.mark.laws
def test_twenty_five_kills_at_failpoints_and_at_random_times(spark: SparkSession, tmp_path: Path) -> None:
    """ONCE: after every kill a clean run, and the whole lake is compared with the oracle in the end."""
    kills = 25
    world = World.at(tmp_path / "world", gold=True, bad=True, computes=False)
    world.draw_evenly(range(10, 16), runs=kills + 1, size=90)
    world.deliver(0)
    world.run(spark)
    clock = Random(25)

    for number in range(1, kills + 1):
        world.deliver(number)
        if number <= len(IN_A_RUN):
            # A rebuild deletes nothing first, so it would not pass all of them.
            kill_at(
                world,
                IN_A_RUN[number - 1],
                clock.choice([strategy for strategy in STRATEGIES if strategy != "recompute"]),
            )
        else:
            process = start(world, strategy=clock.choice(STRATEGIES))
            time.sleep(clock.uniform(4, 25))
            # Java is in a session of its own.
            run = psutil.Process(process.pid)
            for each in (*run.children(recursive=True), run):
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            process.communicate()
        world.run(spark)
        assert world.doubles(spark) == []

    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()
