"""Each law broken on purpose: the comparison with the oracle must see it, or it proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import pytest
from tests.properties.strategies import go_by
from tests.properties.world import World

from frazil.bronze import record as r
from frazil.lake import merge_files
from frazil.marts import fold, history, late, layout
from frazil.marts.arrow import fold as arrow_fold
from frazil.marts.arrow import history as arrow_history
from frazil.runner import planner
from frazil.runner.apply import arrow, arrow_verdicts
from frazil.runner.batch import batch_stats, driver_batch
from frazil.runner.steps import marts
from frazil.silver import unsequenced
from frazil.sources.ledger import Ledger
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from tests.properties.world_declared import Mart

    from frazil.marts.layout import FoldSpec
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract


def order_without_sequence(patch: pytest.MonkeyPatch) -> None:
    """ORDER broken: the place in the source alone decides."""
    right = layout.order
    for room in (fold, history):
        patch.setattr(room, "order", lambda parts: right(replace(parts, sequence_by=())))


def nothing_is_late(patch: pytest.MonkeyPatch) -> None:
    """LATE broken: the last arrival wins."""
    patch.setattr(late, "is_late", lambda _: "false")


def tombstones_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """NO-RESURRECTION broken: earlier deletes are not looked at."""
    right = late.tombstones

    def none(deletes: DataFrame, touched: DataFrame, spec: FoldSpec, **how: bool) -> DataFrame:
        return right(deletes.where("false"), touched, spec, **how)

    patch.setattr(late, "tombstones", none)


def files_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """ONCE broken: every run takes every file again."""
    patch.setattr(planner, "read_ledger", lambda *_: Ledger())


def versions_only_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """HISTORY broken: no change is taken to fall into the past."""
    for verdict in ("is_not_after", "is_late"):
        patch.setattr(late, verdict, lambda *_: "false")


def incomplete_is_complete(patch: pytest.MonkeyPatch) -> None:
    """MISSING-IS-NOT-NULL broken: a column that is not carried becomes NULL."""
    patch.setattr(late, "incomplete_sql", lambda _: "false")


def arrow_folds_to_the_oldest(patch: pytest.MonkeyPatch) -> None:
    """ORDER broken in the driver's fold: the key's first change counts as its newest."""
    right = arrow_fold.ranked
    patch.setattr(arrow_fold, "ranked", lambda *given: right(*given)[::-1])


def arrow_takes_all_as_complete(patch: pytest.MonkeyPatch) -> None:
    """MISSING-IS-NOT-NULL broken where the driver folds."""
    patch.setattr(arrow_fold, "lacking_columns", lambda *_: [])
    patch.setattr(arrow, "lacking_columns", lambda *_: [])


def arrow_takes_nothing_as_late(patch: pytest.MonkeyPatch) -> None:
    """LATE broken where the driver compares."""
    patch.setattr(arrow, "with_verdicts", lambda _batch, _changes, keys, *_: keys)


def arrow_forgets_tombstones(patch: pytest.MonkeyPatch) -> None:
    """NO-RESURRECTION broken where the driver looks for deletes."""
    right = arrow_fold.tombstones_arrow
    patch.setattr(arrow_verdicts, "tombstones_arrow", lambda deletes, spec: right(deletes.slice(0, 0), spec))


def arrow_takes_states_as_equal(patch: pytest.MonkeyPatch) -> None:
    """HISTORY broken where the driver builds versions: no upsert after another one begins a version."""
    patch.setattr(arrow_history, "_equal", lambda _, ones, *__: np.ones(len(ones), np.bool_))


def driver_forgets_older_changes(patch: pytest.MonkeyPatch) -> None:
    """CONVERGE broken where the driver recomputes a key: it finds the batch's changes and none before."""
    right = driver_batch.find_changes

    def newest(context: TableRun, keys: pa.Table, also: Sequence[str]) -> pa.Table | NeedsSpark:
        every = right(context, keys, also)
        return (
            every if isinstance(every, NeedsSpark) else every.filter(pc.equal(every[r.BATCH], pc.max(every[r.BATCH])))
        )

    patch.setattr(marts, "find_changes", newest)


def every_batch_begins_after_all(patch: pytest.MonkeyPatch) -> None:
    """LATE broken: no batch is compared with anything."""
    patch.setattr(batch_stats, "_begins_after", lambda *_: True)


def merging_forgets_places(patch: pytest.MonkeyPatch) -> None:
    """CONVERGE broken where the driver merges files: rows that are deleted in files which stay come back."""
    right = merge_files._places
    patch.setattr(merge_files, "_places", lambda *given: right(*given).slice(0, 0))


def sequences_stay_incomplete(patch: pytest.MonkeyPatch) -> None:
    """SEQUENCE-OF-DELETES broken: a delete takes nothing from the changes before it."""
    right = unsequenced.with_sequences

    def none(rows: DataFrame, _: object, contract: Contract, **how: bool) -> DataFrame:
        lacks = unsequenced.lacks_sequence(contract)
        alone = right(rows.where(lacks), None, contract, **how)
        return rows.where(f"NOT {lacks}").unionByName(alone)

    patch.setattr(unsequenced, "with_sequences", none)


def sequences_stay_as_they_are(patch: pytest.MonkeyPatch) -> None:
    """SEQUENCE-OF-DELETES broken: later arrivals at an earlier place do not change sequences."""
    right = unsequenced.late_sequences
    patch.setattr(unsequenced, "late_sequences", lambda *given, **how: right(*given, **how).where("false"))


UNSEQUENCED = (sequences_stay_incomplete, sequences_stay_as_they_are)
IN_TIME = (arrow_folds_to_the_oldest, arrow_takes_all_as_complete, arrow_takes_states_as_equal)
"""What is broken in these is not asked where changes are late."""
BY_ROW_DELTA = (
    *IN_TIME,
    arrow_takes_nothing_as_late,
    arrow_forgets_tombstones,
    driver_forgets_older_changes,
    merging_forgets_places,
)
"""What is broken in these is asked for row deltas only, the rest where Spark applies batches."""
NARROW = (incomplete_is_complete, arrow_takes_all_as_complete)


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "mart"),
    [
        (nothing_is_late, "hard"),
        pytest.param(order_without_sequence, "hard", marks=pytest.mark.laws),
        pytest.param(tombstones_are_forgotten, "hard", marks=pytest.mark.laws),
        pytest.param(tombstones_are_forgotten, "soft", marks=pytest.mark.laws),
        pytest.param(nothing_is_late, "soft", marks=pytest.mark.laws),
        pytest.param(files_are_forgotten, "hard", marks=pytest.mark.laws),
        pytest.param(versions_only_at_the_end, "close", marks=pytest.mark.laws),
        pytest.param(versions_only_at_the_end, "mark", marks=pytest.mark.laws),
        pytest.param(incomplete_is_complete, "soft", marks=pytest.mark.laws),
        pytest.param(arrow_folds_to_the_oldest, "hard", marks=pytest.mark.laws),
        (arrow_takes_nothing_as_late, "hard"),
        pytest.param(arrow_forgets_tombstones, "hard", marks=pytest.mark.laws),
        (arrow_takes_states_as_equal, "close"),
        pytest.param(driver_forgets_older_changes, "close", marks=pytest.mark.laws),
        pytest.param(driver_forgets_older_changes, "soft", marks=pytest.mark.laws),
        pytest.param(every_batch_begins_after_all, "hard", marks=pytest.mark.laws),
        pytest.param(arrow_takes_all_as_complete, "soft", marks=pytest.mark.laws),
        pytest.param(sequences_stay_incomplete, "hard", marks=pytest.mark.laws),
        pytest.param(sequences_stay_as_they_are, "hard", marks=pytest.mark.laws),
        pytest.param(merging_forgets_places, "hard", marks=pytest.mark.laws),
        pytest.param(merging_forgets_places, "close", marks=pytest.mark.laws),
    ],
)
def test_a_broken_law_is_seen(
    broken: Callable[[pytest.MonkeyPatch], None],
    mart: Mart,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = go_by("row_delta" if broken in BY_ROW_DELTA else "overwrite")
    world = World.at(tmp_path / "world", mart, policy=policy)
    runs = 6 if broken is merging_forgets_places else 2
    narrow = 0.4 if broken in NARROW else 0.0
    if broken in IN_TIME:
        world.draw_in_time(range(300, 306), runs=runs, narrow=narrow)
    else:
        share = 0.7 if broken in UNSEQUENCED else 0.0
        world.draw_evenly(range(300, 306), runs=runs, narrow=narrow, unsequenced=share)
    for number in range(len(world.runs)):
        world.deliver(number)
        with monkeypatch.context() as patch:
            broken(patch)
            world.run(spark)

    assert world.differences(spark) != []


@pytest.mark.laws
def test_nothing_is_seen_where_nothing_is_broken(spark: SparkSession, tmp_path: Path) -> None:
    world = World.at(tmp_path / "world").draw_evenly(range(300, 306), runs=2)

    assert world.live(spark).differences(spark) == []
