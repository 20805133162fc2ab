"""What a run reports of its marts is what the tables before and after it show, of every strategy and mart."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.counting import Counts, Picture, counted, reported
from tests.properties.strategies import STRATEGIES, go_by, go_by_lot
from tests.properties.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.plan.policy import Strategy
    from frazil.runner.report import RunReport

KEYS = ("h", "id")


@dataclass(frozen=True)
class Told:
    """One run: what it reports of each mart, and what the tables show."""

    report: RunReport
    shown: dict[str, Counts]


def grown(world: World, first: int, *, size: int, narrow: float = 0.0) -> World:
    """Draw a load, a batch that follows all before, then late, tied and repeated changes in any order."""
    in_time = world.draw_in_time(range(first, first + size), runs=2).runs
    world.draw_evenly(range(first + size, first + 3 * size), runs=3, narrow=narrow)
    world.runs = [*in_time, *world.runs]
    return world


def live_and_count(world: World, spark: SparkSession) -> list[Told]:
    """Let everything arrive, the last of it with a rebuild, and rebuild once more with nothing new."""
    told = []
    session, sequence_by = world.session(spark), () if world.by_place else ("ts",)
    before = Picture.of(session, "things", world.marts)
    for number in range(len(world.runs) + 1):
        if number < len(world.runs):
            world.deliver(number)
        report = world.run(spark, rebuild=number >= len(world.runs) - 1)
        after = Picture.of(session, "things", world.marts)
        told.append(Told(report, counted(before, after, KEYS, sequence_by)))
        before = after
    return told


@pytest.mark.laws
def test_a_report_counts_what_the_tables_show(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every batch with a strategy by lot."""
    lot = Random(700)
    go_by_lot(lot, monkeypatch)
    world = grown(World.at(tmp_path / "world", "hard", "close"), 700, size=4)

    told = live_and_count(world, spark)

    assert [reported(one.report) for one in told] == [one.shown for one in told]
    assert all(map(sum, zip(*(one.shown["hard"] for one in told), strict=True))), "something was never counted"
    last = told[-1].report.tables[0].marts
    assert {(mart.strategy, mart.rows > 0) for mart in last} == {("recompute", True)}
    assert set(told[-1].shown.values()) == {Counts()}


@pytest.mark.laws
@pytest.mark.parametrize(("by_place", "narrow"), [(False, 0.0), (False, 0.4), (True, 0.0)])
def test_every_strategy_and_every_mart_counts_the_same(
    by_place: bool,  # noqa: FBT001 - pytest gives it by name
    narrow: float,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """With columns that are not carried, too; and where the place alone orders, so event times run against it."""
    lives: dict[Strategy, list[dict[str, Counts]]] = {}
    for strategy in STRATEGIES:
        world = World.at(tmp_path / strategy, by_place=by_place, policy=go_by(strategy), computes=narrow > 0)
        told = live_and_count(grown(world, 720, size=6, narrow=narrow), spark)
        lives[strategy] = [reported(one.report) for one in told]
        assert lives[strategy] == [one.shown for one in told]

    assert all(life == lives["row_delta"] for life in lives.values())
    assert all(len(set(marts.values())) == 1 for marts in lives["row_delta"])
