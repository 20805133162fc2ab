"""CONVERGE: records that come wrong and are corrected later, with kills between, end as if they had come right."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.properties.strategies import STRATEGIES, go_by, go_by_lot
from tests.properties.world import World

from frazil.failpoints import FAILPOINTS, FailpointReached
from frazil.runner.report import RunFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.plan.policy import Strategy

pytestmark = pytest.mark.laws

KILLS = tuple(name for name in FAILPOINTS if name.startswith(("replay.", "quarantine.", "silver.", "mart.", "bronze.")))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_corrections_converge_however_they_are_applied(strategy: Strategy, spark: SparkSession, tmp_path: Path) -> None:
    lot = Random(f"{strategy}")
    world = World.at(tmp_path / "world", policy=go_by(strategy), computes=strategy == "overwrite")
    world.draw(range(800, 808)).draw(range(808, 812), narrow=0.4)
    world.spoil(0.2, lot)
    for number in range(len(world.runs)):
        world.deliver(number)
        world.run(spark)
        if lot.random() < 0.5:
            world.replay(spark, 0.5, lot)

    assert world.differences(spark) == []
    world.replay(spark, 1.0, lot)
    assert all(world.spoiled.values())
    assert world.differences(spark) == []
    world.run(spark, rebuild=True)
    assert world.differences(spark) == []


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_replays_that_are_killed_converge(
    first: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lot = Random(first)
    go_by_lot(lot, monkeypatch)
    world = World.at(tmp_path / "world", computes=lot.random() < 0.5)
    world.draw(range(first, first + 15)).draw(range(first + 15, first + 20), narrow=0.4)
    world.spoil(0.15, lot)
    for number in range(len(world.runs)):
        world.deliver(number)
        world.run(spark)
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{lot.choice(KILLS)}:raise")
        with suppress(FailpointReached, RunFailedError):
            world.replay(spark, 1.0, lot)
        monkeypatch.delenv("FRAZIL_FAILPOINT")
        world.run(spark)
        # What the killed one had not brought to bronze is still in quarantine.
        world.replay(spark, 1.0, lot)
    world.spoiled = dict.fromkeys(world.spoiled, True)

    assert world.differences(spark) == []
    world.run(spark, rebuild=True)
    assert world.differences(spark) == []
