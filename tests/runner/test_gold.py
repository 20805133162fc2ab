"""Aggregates over marts and over each other; incremental ones compute only the groups that were touched."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.properties.strategies import go_by
from tests.properties.world import World
from tests.properties.world_declared import parts

import frazil
from frazil.iceberg.metadata import DamagedTableError
from frazil.runner.report import RunFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.report import RunReport

pytestmark = pytest.mark.spark


def world_with(folder: Path, *, runs: int = 0) -> World:
    """Make a world with three aggregates, one of them over another one."""
    world = World.at(folder / "world", "hard", gold=True, policy=go_by("row_delta"))
    declare_parts(world, Random(10))
    return world.draw_evenly(range(3), runs=runs) if runs else world


def declare_parts(world: World, lot: Random) -> None:
    declaration = world.folder / "frazil.yml"
    declaration.write_text(declaration.read_text(encoding="utf-8") + parts(lot), encoding="utf-8")


def differences(world: World, spark: SparkSession) -> list[str]:
    """Name the aggregates that do not hold what their SELECT gives of the marts."""
    session = world.session(spark)
    found = []
    for gold in frazil.load(world.folder).gold:
        sql = gold.sql.replace("{{ hard }}", "lake.marts.hard").replace("{{ living }}", "lake.gold.living")
        expected, held = session.sql(sql), session.table(f"lake.gold.{gold.name}")
        if not expected.exceptAll(held).isEmpty() or not held.exceptAll(expected).isEmpty():
            found.append(gold.name)
    return found


def strategies(report: RunReport) -> dict[str, str]:
    return {made.name: made.strategy for made in report.gold if made.outcome == "done"}


@pytest.mark.long
def test_an_incremental_aggregate_equals_a_full_one_after_every_run(spark: SparkSession, tmp_path: Path) -> None:
    """CONVERGE: late changes, deletes and changes that move a row from one group to another; a rebuild between."""
    world = world_with(tmp_path, runs=5)

    seen = []
    for number in range(5):
        world.deliver(number)
        seen.append(strategies(world.run(spark)))
        assert differences(world, spark) == []
        if number == 2:
            rebuilt = world.run(spark, rebuild=True)
            assert strategies(rebuilt) == dict.fromkeys(("everything", "living", "parts"), "replace")
            assert differences(world, spark) == []

    assert seen[0] == {"everything": "replace", "living": "replace", "parts": "replace"}
    assert [one["parts"] for one in seen[1:]] == ["incremental"] * 4
    assert [one["everything"] for one in seen[1:]] == ["replace"] * 4
    assert world.run(spark).steps == 0


@pytest.mark.laws
@pytest.mark.parametrize("first", range(0, 40, 8))
@pytest.mark.parametrize("strategy", ["row_delta", "delete_append", "overwrite", "recompute"])
def test_many_histories_and_both_ways_agree(first: int, strategy: str, spark: SparkSession, tmp_path: Path) -> None:
    """CONVERGE: the groups of incremental aggregates, whatever arrives, is selected, or writes the mart."""
    world = World.at(tmp_path / "world", "hard", gold=True, policy=go_by(strategy))  # type: ignore[arg-type]
    declare_parts(world, Random(f"{first} {strategy}"))
    world.draw(range(first, first + 6)).draw(range(first + 6, first + 8), narrow=0.4)

    for number in range(len(world.runs)):
        world.deliver(number)
        world.run(spark)
        assert differences(world, spark) == []


@pytest.mark.laws
def test_an_aggregate_is_computed_whole_where_its_past_is_gone_or_much_is_touched(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_with(tmp_path, runs=3)
    session = world.session(spark)
    world.deliver(0)
    world.run(spark)
    [before] = session.sql("SELECT snapshot_id FROM lake.marts.hard.refs WHERE name = 'main'").collect()
    world.deliver(1)
    monkeypatch.setenv("FRAZIL_FAILPOINT", "gold.before_publish:raise")
    with pytest.raises(RunFailedError):
        world.run(spark)
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    session.sql(f"CALL lake.system.expire_snapshots(table => 'marts.hard', snapshot_ids => ARRAY({before[0]}))")

    assert strategies(world.run(spark))["parts"] == "replace"
    assert differences(world, spark) == []

    world.policy = replace(world.policy, touched_groups=0)
    world.deliver(2)
    assert strategies(world.run(spark))["parts"] == "replace"
    assert differences(world, spark) == []


@pytest.mark.long
def test_aggregates_over_a_failed_one_are_skipped_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    world = world_with(tmp_path, runs=2)
    declaration = world.folder / "frazil.yml"
    text = declaration.read_text(encoding="utf-8")
    declaration.write_text(text.replace("count(*) as living", "sum(1 / (h - h)) as living"), encoding="utf-8")
    world.deliver(0)

    with pytest.raises(RunFailedError) as caught:
        world.run(spark)

    made = {one.name: (one.outcome, one.because) for one in caught.value.report.gold}
    assert made["living"] == ("failed", "")
    assert made["everything"] == ("not started", "gold.living failed")
    assert made["parts"] == ("done", "")

    declaration.write_text(text, encoding="utf-8")
    assert strategies(world.run(spark)) == {"living": "replace", "everything": "replace"}
    assert differences(world, spark) == []


@pytest.mark.parametrize("times", [1, 2])
def test_an_aggregate_whose_mart_lost_files_to_another_host_is_computed_from_those_it_has_now(
    times: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an erase ends there between plan and execution of the SELECT; files that stay away are damage."""
    world, left = world_with(tmp_path, runs=1), [times]

    def reads(place: str) -> None:
        if place == "gold.before_publish" and left[0]:
            left[0] -= 1
            raise DamagedTableError("s3://lake/marts/hard/data/1.parquet", "is missing")

    monkeypatch.setattr("frazil.runner.steps.gold.failpoint", reads)
    world.deliver(0)

    with nullcontext() if times == 1 else pytest.raises(RunFailedError, match="FZ306"):
        assert set(strategies(world.run(spark))) == {"everything", "living", "parts"}
    if times == 1:
        assert differences(world, spark) == []
