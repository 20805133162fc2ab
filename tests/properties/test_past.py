"""CONVERGE and CUT: rollbacks, cuts and upkeep between the runs, with kills, change nothing of what a lake comes to."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.properties.strategies import go_by_lot
from tests.properties.world import World

from frazil import api
from frazil.failpoints import FailpointReached
from frazil.runner.report import RunFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KILLS = ("cut.after_tag", "rollback.before_commit", "rollback.after_commit", "maintain.after_rewrite")


def content(world: World, mart: str, as_of: str | None = None) -> Counter[str]:
    """Return the rows of a mart, now or at a cut."""
    found = api.query(world.folder, f"select columns(c -> c not like '_cdc%') from {mart}", as_of=as_of)
    return Counter(map(repr, found.rows))


def live_with_a_past(world: World, lot: Random, spark: SparkSession, patch: pytest.MonkeyPatch) -> None:
    """Let everything arrive; after each run cut, and then go back, compact, or be killed. Every cut keeps its rows."""
    session = world.session(spark)
    kept: dict[str, dict[str, Counter[str]]] = {}

    def do(what: str) -> None:
        match what:
            case "cut":
                api.cut(world.folder, f"killed-{number}", spark=session)
            case "rollback":
                plan = api.rollback_plan(world.folder, "things", lot.choice([*kept]))
                api.rollback(world.folder, plan, spark=session)
            case "maintain":
                api.maintain(world.folder, spark=session)

    for number in range(len(world.runs)):
        world.deliver(number)
        world.run(spark)
        api.cut(world.folder, f"after-{number}", spark=session)
        kept[f"after-{number}"] = {mart: content(world, mart) for mart in world.marts}
        for what in lot.sample(["cut", "rollback", "maintain"], 2):
            if lot.random() < 0.5:
                patch.setenv("FRAZIL_FAILPOINT", f"{lot.choice(KILLS)}:raise")
            with suppress(FailpointReached, RunFailedError):
                do(what)
            patch.delenv("FRAZIL_FAILPOINT", raising=False)
        if lot.random() < 0.5:
            world.run(spark)
            assert {mart: content(world, mart) for mart in world.marts} == kept[f"after-{number}"]
    world.run(spark)
    for name, marts in kept.items():
        assert {mart: content(world, mart, name) for mart in world.marts} == marts


@pytest.mark.long
def test_what_is_done_with_the_past_changes_nothing_of_the_present(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World.at(tmp_path / "world", "hard", "close").draw_evenly(range(900, 904), 2)

    live_with_a_past(world, Random(1), spark, monkeypatch)

    assert world.differences(spark) == []


@pytest.mark.laws
@pytest.mark.parametrize("first", range(2000, 2500, 50))
def test_five_hundred_histories_with_a_past_converge(
    first: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lot = Random(first)
    go_by_lot(lot, monkeypatch)
    world = World.at(tmp_path / "world", computes=lot.random() < 0.5)
    world.draw_evenly(range(first, first + 50), 4, narrow=0.2)

    live_with_a_past(world, lot, spark, monkeypatch)

    assert world.differences(spark) == []
