"""Rollbacks: marts go back with their bookmarks, and the next run ends where it would have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.properties.world import World

from frazil import api
from frazil.failpoints import FailpointReached
from frazil.iceberg.time_travel import PointError
from frazil.serve.query.diff import diff

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def roll(world: World, to: str, spark: SparkSession) -> None:
    plan = api.rollback_plan(world.folder, "things", to)
    api.rollback(world.folder, plan, spark=world.session(spark))


@pytest.mark.long
def test_marts_and_aggregates_go_back_and_the_next_run_catches_up_wherever_it_is_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World.at(tmp_path / "world", "hard", "close", gold=True).draw_evenly(range(4), 3)
    living = []
    for number in range(3):
        world.deliver(number)
        world.run(spark)
        living.append(world.living(spark))
        if number == 0:
            # Another declaration, which a user takes back later: its rows are wrong until then.
            api.cut(world.folder, "good", spark=world.session(spark))
            declaration = (world.folder / "frazil.yml").read_text(encoding="utf-8")
            wrong = declaration.replace("select h, count(*)", "select h, -count(*)")
            (world.folder / "frazil.yml").write_text(wrong, encoding="utf-8")
    assert world.living(spark) == {history: -count for history, count in world.expected_living().items()}

    (world.folder / "frazil.yml").write_text(declaration, encoding="utf-8")
    roll(world, "good", spark)

    assert world.living(spark) == living[0]
    changed = [diff(api.load(world.folder), mart, "good").changed for mart in world.marts]
    assert changed == [0, 0]
    with pytest.raises(PointError, match="no snapshot of batch 7"):
        api.rollback_plan(world.folder, "things", "batch:7")
    world.run(spark)
    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()

    count = len(api.rollback_plan(world.folder, "things", "batch:2").moves)
    for failpoint in ("rollback.before_commit", "rollback.after_commit"):
        monkeypatch.setenv("FRAZIL_FAILPOINT", f"{failpoint}:raise")
        with pytest.raises(FailpointReached):
            roll(world, "batch:2", spark)
        monkeypatch.delenv("FRAZIL_FAILPOINT")
    # One has gone back, and the others have not.
    assert len(api.rollback_plan(world.folder, "things", "batch:2").moves) == count - 1 > 0
    world.run(spark)
    assert world.differences(spark) == []
    assert world.living(spark) == world.expected_living()
    assert api.rollback_plan(world.folder, "things", "batch:3").moves == ()
