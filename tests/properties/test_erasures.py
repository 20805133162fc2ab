"""ERASE: after any arrivals, kills and rebuilds no table has an erased key, and other keys are as if alone."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.properties.strategies import go_by_lot
from tests.properties.world import World

from frazil import api
from frazil.erase import job as erase_job
from frazil.failpoints import FAILPOINTS, FailpointReached

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KILLS = tuple(name for name in FAILPOINTS if name.startswith("erase."))


@pytest.mark.laws
def test_an_erase_that_is_killed_at_each_place_in_turn_ends_as_if_it_had_not_been(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lot = Random(1)
    world = World.at(tmp_path / "world", gold=True).draw(range(3))
    world.deliver(0)
    world.run(spark)
    keys = world.draw_keys(lot, 0.4)
    for name in KILLS:
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{name}:raise")
        with pytest.raises(FailpointReached):
            # The one that ends it may be about another key.
            world.erase(spark, keys if name == KILLS[0] else keys[:1])
        monkeypatch.delenv("FRAZIL_FAILPOINT")
        (table,) = api.status(world.folder).tables
        assert table.unfinished_erase, name
    report = world.erase(spark, keys[:1])
    world.erased |= {*keys}

    assert report.resumed
    assert [table.unfinished_erase for table in api.status(world.folder).tables] == [None]
    assert report.proof is not None
    assert report.proof.is_clean
    # The first delivery comes once more, under other names.
    world.live(spark)
    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()
    assert [finding for finding in api.check(world.folder) if finding.ok is False] == []
    world.run(spark, rebuild=True)
    assert world.differences(spark) == []


@pytest.mark.laws
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_erasures_with_kills_and_redeliveries_leave_all_other_keys_as_they_are(
    first: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lot = Random(first)
    go_by_lot(lot, monkeypatch)
    world = World.at(tmp_path / "world", gold=True)
    world.draw(range(first, first + 15)).draw(range(first + 15, first + 20), narrow=0.4)
    for number in range(len(world.runs)):
        world.deliver(number)
        world.run(spark)
        if lot.random() < 0.5:
            # Rows go by their places, or where these are too many, by what they hold.
            monkeypatch.setattr(erase_job, "_MOST_PLACES", lot.choice((0, 1_000_000)))
            keys = world.draw_keys(lot, 0.05) or world.draw_keys(lot, 1.0)[:1]
            monkeypatch.setenv("FRAZIL_FAILPOINT", f"{lot.choice(KILLS)}:raise")
            with suppress(FailpointReached):
                world.erase(spark, keys)
            monkeypatch.delenv("FRAZIL_FAILPOINT")
            world.run(spark)
            world.erase(spark, keys)
            world.erased |= {*keys}

    assert world.differences(spark) == []
    world.run(spark, rebuild=True)
    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()
