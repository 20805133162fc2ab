"""CONVERGE: folds of old changes between the runs, with kills, erasures and rebuilds, change no row of a mart."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.properties.strategies import go_by_lot
from tests.properties.world import World

from frazil import api
from frazil.failpoints import FailpointReached
from frazil.plan.policy import DEFAULT_POLICY, Policy

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.properties.world_declared import Mart

KILLS = ("fold.before_publish", "fold.after_silver", "fold.before_bronze", "fold.after_bronze")
BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def live_with_a_horizon(world: World, lot: Random, spark: SparkSession, patch: pytest.MonkeyPatch) -> None:
    """Let everything arrive; between the runs fold what is older than some seconds, be killed, erase and rebuild."""
    for number in range(len(world.runs)):
        world.deliver(number)
        world.run(spark)
        for _ in range(2):
            if lot.random() < 0.5:
                patch.setenv("FRAZIL_FAILPOINT", f"{lot.choice(KILLS)}:raise")
            with suppress(FailpointReached):
                world.fold(spark, BEGIN + dt.timedelta(seconds=lot.randint(2, 12 * (number + 1))))
            patch.delenv("FRAZIL_FAILPOINT", raising=False)
        world.run(spark, rebuild=lot.random() < 0.5)
        if lot.random() < 0.3 and (keys := world.draw_keys(lot, 0.2)):
            world.erased |= {*keys}
            world.erase(spark, keys)
    assert world.differences(spark) == []
    world.run(spark, rebuild=True)
    assert world.differences(spark) == []
    assert [finding for finding in api.check(world.folder) if finding.ok is False] == []


@pytest.mark.laws
def test_folds_of_old_changes_change_nothing_of_what_is_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World.at(tmp_path / "world", "soft", "mark", bad=True).draw_evenly(range(910, 918), 2, narrow=0.3)

    live_with_a_horizon(world, Random(3), spark, monkeypatch)

    assert world.horizon is not None
    assert [row["rule"] for row in _too_late(world, spark)] != []


@pytest.mark.laws
@pytest.mark.parametrize("first", range(5000, 5500, 50))
def test_five_hundred_histories_with_a_retention_converge(
    first: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lot = Random(first)
    go_by_lot(lot, monkeypatch)
    marts: tuple[Mart, ...] = lot.choice((("hard",), ("hard", "soft"), ("hard", "soft", "close", "mark")))
    is_bad, computes = lot.random() < 0.5, lot.random() < 0.5
    policy = lot.choice((DEFAULT_POLICY, Policy(broadcast_changes=0)))
    world = World.at(tmp_path / "world", *marts, gold="hard" in marts, bad=is_bad, computes=computes, policy=policy)
    world.draw_evenly(range(first, first + 50), 4, narrow=0.2, unsequenced=lot.choice((0.0, 0.3)))

    live_with_a_horizon(world, lot, spark, monkeypatch)


def _too_late(world: World, spark: SparkSession) -> list[dict[str, object]]:
    quarantine = world.session(spark).table("lake.silver.things_quarantine")
    found: list[dict[str, object]] = quarantine.where("rule = 'before_horizon'").toArrow().to_pylist()
    return found
