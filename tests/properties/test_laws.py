"""CONVERGE and the laws it stands on, by random histories against the oracle in plain Python.

A world holds many histories with late changes, ties, early and repeated deletes, re-creations and files
delivered twice, in any order and any split into runs. Some lack a column.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.properties.strategies import SOME_STRATEGIES, go_by, go_by_lot
from tests.properties.world import World

from frazil.marts import late
from frazil.plan.policy import Reader
from frazil.runner.steps import ingest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from frazil.plan.policy import Strategy


@pytest.fixture(
    scope="module", params=[False, pytest.param(True, marks=pytest.mark.laws)], ids=["plain columns", "computed column"]
)
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """45 complete histories: 15 with files that lack a column, and 6 with deletes that lack a sequence."""
    drawn = World.at(tmp_path_factory.mktemp("laws") / "world", computes=request.param)
    drawn.draw(range(100, 124)).draw(range(124, 130), unsequenced=0.5)
    return drawn.draw(range(200, 215), narrow=0.4).live(spark)


def test_all_four_marts_hold_what_the_oracle_says(world: World, spark: SparkSession) -> None:
    """CONVERGE, ORDER, LATE, NO-RESURRECTION, UNSEEN, DELETES, HISTORY, AGREE, MISSING-IS-NOT-NULL."""
    assert world.differences(spark) == []


def test_a_run_with_nothing_new_commits_nothing(world: World, spark: SparkSession) -> None:
    """ONCE: not one snapshot more in any table."""
    before = world.heads(spark)

    report = world.run(spark)

    assert report.steps == 0
    assert world.heads(spark) == before


def test_a_rebuild_gives_the_rows_of_the_many_runs(world: World, spark: SparkSession) -> None:
    """CONVERGE: one big run equals a thousand small ones."""
    before = world.heads(spark)

    world.run(spark, rebuild=True)

    assert world.differences(spark) == []
    changed = {name for name, snapshot in world.heads(spark).items() if snapshot != before[name]}
    assert changed == {
        "silver.things_changes",
        "silver.things_quarantine",
        *map("marts.{}".format, world.marts),
    }


@pytest.mark.laws
@pytest.mark.parametrize("computes", [False, True], ids=["plain columns", "computed column"])
@pytest.mark.parametrize("strategy", SOME_STRATEGIES)
def test_every_strategy_leads_to_what_the_oracle_says(
    strategy: Strategy,
    computes: bool,  # noqa: FBT001 - pytest gives it by name
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """CONVERGE and all laws it stands on, however a batch is applied."""
    world = World.at(tmp_path / "world", policy=go_by(strategy), computes=computes)
    world.draw(range(500, 510)).draw(range(510, 516), narrow=0.4)

    assert world.live(spark).differences(spark) == []


@pytest.mark.laws
@pytest.mark.parametrize("strategy", ["row_delta", "delete_append", "overwrite"])
def test_batches_that_are_newer_than_all_before_need_no_guard(
    strategy: Strategy, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONVERGE, LATE, NO-RESURRECTION: keys are not looked up until a batch overlaps earlier ones."""
    asked = Counter[str]()
    for name in ("target_rows", "with_prior_order"):
        monkeypatch.setattr(late, name, counted(getattr(late, name), asked))
    policy = replace(go_by(strategy), driver_scan_bytes=0)
    world = World.at(tmp_path / "world", policy=policy, computes=False).draw_in_time(range(600, 606), runs=4)
    world.draw_in_time(range(606, 609), runs=4, narrow=0.5).live(spark)
    in_time = dict(asked)

    world.runs.clear()
    world.draw(range(610, 613), size=20).live(spark)

    assert world.differences(spark) == []
    assert in_time == {"target_rows": 3 * len(world.marts)}
    assert asked["with_prior_order"] > 0


def counted(call: Callable[..., DataFrame], asked: Counter[str]) -> Callable[..., DataFrame]:
    """Count how often a function is called."""

    def call_and_count(*given: Any, **named: Any) -> DataFrame:
        asked[call.__name__] += 1
        return call(*given, **named)

    return call_and_count


@pytest.mark.laws
@pytest.mark.parametrize("computes", [False, True], ids=["plain columns", "computed column"])
def test_changes_ordered_by_their_place_alone_converge(
    computes: bool,  # noqa: FBT001 - pytest gives it by name
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """ORDER, HISTORY: event times run against the order, some are NULL, and some changes do not carry theirs."""
    world = World.at(tmp_path / "world", by_place=True, computes=computes)
    world.draw(range(400, 420)).draw(range(420, 430), narrow=0.4)

    assert world.live(spark).differences(spark) == []
    world.run(spark, rebuild=True)
    assert world.differences(spark) == []


@pytest.mark.laws
@pytest.mark.parametrize("strategy", SOME_STRATEGIES)
def test_new_keys_whose_changes_lack_their_event_times_converge(
    strategy: Strategy, spark: SparkSession, tmp_path: Path
) -> None:
    """HISTORY, MISSING-IS-NOT-NULL: a change that does not carry its time takes effect no later than the one before."""
    world = World.at(tmp_path / "world", "close", "mark", by_place=True, policy=go_by(strategy), computes=False)
    world.draw_apart(range(430, 442), runs=2, narrow=0.5)

    assert world.live(spark).differences(spark) == []


@pytest.mark.laws
@pytest.mark.parametrize("strategy", SOME_STRATEGIES)
def test_nulls_that_are_ignored_leave_what_a_row_has(strategy: Strategy, spark: SparkSession, tmp_path: Path) -> None:
    """MISSING-IS-NOT-NULL, where ``ignore_null_updates`` says that NULL is missing; late, and across batches."""
    world = World.at(tmp_path / "world", policy=go_by(strategy), ignores_nulls=True)
    world.draw(range(700, 710)).draw(range(710, 715), narrow=0.4)

    assert world.live(spark).differences(spark) == []
    world.run(spark, rebuild=True)
    assert world.differences(spark) == []


@pytest.mark.laws
@pytest.mark.parametrize("first", range(1000, 1500, 50))
def test_five_hundred_longer_histories_converge(
    first: int, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONVERGE and all laws it stands on, fifty histories of 30 to 60 changes a world, strategies by lot."""
    lot = Random(first)
    go_by_lot(lot, monkeypatch)
    monkeypatch.setattr(ingest, "reader", lambda *_, **__: lot.choice(get_args(Reader)))
    world = World.at(tmp_path_factory.mktemp("laws") / "world", computes=lot.random() < 0.5)
    world.draw(range(first, first + 30), size=30 + first % 31).draw(range(first + 35, first + 50), narrow=0.4)
    world.draw(range(first + 30, first + 35), unsequenced=lot.choice((0.2, 0.9)))

    world.live(spark)

    assert world.differences(spark) == []
    world.run(spark, rebuild=True)
    assert world.differences(spark) == []
