"""CONVERGE with a baseline: what is kept of old changes, and any newer ones, fold to what all of them fold to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from frazil.marts.all_rows import all_rows
from frazil.marts.baseline import baseline_rows
from frazil.marts.layout import EVENT_TIME, FoldSpec, with_event_time
from frazil.silver.baseline import Baseline, Served
from frazil.spec import Current, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SILVER = (
    "id int, ts timestamp, value string, note string, late string, _cdc_class string, _cdc_position string, "
    "_cdc_row bigint, _cdc_file string, _cdc_batch bigint, _cdc_known array<string>, _cdc_source_time timestamp"
)
SPEC = FoldSpec(
    keys=("id",),
    sequence_by=("ts",),
    columns=("id", "ts", "value", "note", "late"),
    event_times=("ts",),
    tracked=("value", "note"),
    since={"late": 2},
    partial=True,
)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
EDGE = 1000
HORIZON = "ts < TIMESTAMP '2026-01-01 00:00:05'"
MARTS: dict[str, tuple[Current | History, tuple[str, ...]]] = {
    "hard": (Current(), ()),
    "soft": (Current(deletes="soft"), ()),
    "close": (History(), ("value", "note")),
    "mark": (History(deletes="mark"), ("value", "note")),
    "coarse": (History(deletes="mark"), ("value",)),
    "nothing": (History(), ()),
}
SERVED = {
    "hard": Served(),
    "soft": Served(deleted=True),
    "close": Served(deleted=True, tracked=(("value", "note"),)),
    "coarse": Served(deleted=True, tracked=(("value",), ("note", "late"))),
}


def cases(*usual: str) -> list[Any]:
    """Return what baselines serve as cases of a test; but for some, they go with the laws."""
    return [pytest.param(name, marks=[pytest.mark.laws] * (name not in usual)) for name in SERVED]


def baseline(served: str, **settings: Any) -> Baseline:
    return Baseline(**{"before": "2026-01-01 00:00:05", "batch": 3, "served": SERVED[served], **settings})


def random_rows(seed: int, keys: int) -> list[tuple[Any, ...]]:
    """Draw the changes of some keys: many at one time, deletes first and twice, some that carry few columns."""
    chance = Random(seed)
    rows: list[tuple[Any, ...]] = []
    for key in range(keys):
        for _ in range(chance.randint(1, 9)):
            second, batch = chance.choice((1, 2, 2, 3, 3, 4, 6, 7)), chance.randint(1, 3)
            is_delete, has_late = chance.random() < 0.35, batch >= 2
            values: list[str | None] = (
                [None] * 3 if is_delete else [chance.choice("ab"), chance.choice("xy"), chance.choice("pq")]
            )
            known = None
            if not is_delete and chance.random() < 0.2:
                known = ["id", "ts", chance.choice(("value", "note"))]
                values = [
                    value if name in known else None for name, value in zip(("value", "note"), values, strict=False)
                ]
                values = [*values, None]
            values = values if has_late else [*values[:2], None]
            at = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
            kind = "delete" if is_delete else "upsert"
            rows.append((key, at, *values, kind, f"1/{batch}/", len(rows) + 1, f"f{batch}", batch, known))
            source = chance.choice((None, at, at + timedelta(seconds=chance.randint(0, 6)))) if is_delete else None
            rows[-1] = (*rows[-1], source)
    return rows


def with_moves(rows: list[tuple[Any, ...]], seed: int) -> list[tuple[Any, ...]]:
    """Turn some upserts into changes of key, with a delete of another key at the same place."""
    chance = Random(seed)
    moved = [row for row in rows if row[5] == "upsert" and row[0] > 0 and chance.random() < 0.15]
    return rows + [(row[0] - 1, row[1], None, None, None, "delete", *row[6:10], None, None) for row in moved]


def rows_of(frame: DataFrame) -> Counter[str]:
    names = sorted(frame.columns)
    return Counter(repr([row[name] for name in names]) for row in frame.toArrow().to_pylist())


@pytest.mark.long
@pytest.mark.parametrize("served", cases("close"))
def test_a_baseline_and_newer_changes_fold_to_what_all_changes_fold_to(served: str, spark: SparkSession) -> None:
    changes = with_event_time(spark.createDataFrame(random_rows(7, 400), SILVER), SPEC).localCheckpoint()

    kept = baseline_rows(changes.where(HORIZON), SPEC, baseline(served)).localCheckpoint()

    found = with_event_time(kept, SPEC).unionByName(changes.where(f"NOT {HORIZON}"))
    assert kept.columns == [name for name in changes.columns if name != EVENT_TIME]
    assert kept.count() < changes.where(HORIZON).count() * (0.95 if served in {"close", "coarse"} else 0.6)
    compared = compare(served, found, changes, SPEC)
    assert compared == {"hard": 1, "soft": 2, "close": 6, "coarse": 4}[served]


@pytest.mark.long
@pytest.mark.parametrize("served", cases("coarse"))
def test_a_baseline_keeps_changes_of_key_and_folds_to_the_same(served: str, spark: SparkSession) -> None:
    rows = with_moves(random_rows(8, 300), 8)
    changes = with_event_time(spark.createDataFrame(rows, SILVER), SPEC).localCheckpoint()
    moves = changes.where(HORIZON).groupBy("_cdc_file", "_cdc_row").agg({"*": "count"}).where("`count(1)` = 2")

    kept = baseline_rows(changes.where(HORIZON), SPEC, baseline(served), moves=True).localCheckpoint()

    assert kept.columns == [name for name in changes.columns if name != EVENT_TIME]
    of_moves = kept.join(moves, ["_cdc_file", "_cdc_row"], "left_semi")
    assert kept.count() < changes.where(HORIZON).count()
    assert of_moves.count() == 2 * moves.count() > 0
    found = with_event_time(kept, SPEC).unionByName(changes.where(f"NOT {HORIZON}"))
    compare(served, found, changes, SPEC)


def compare(served: str, found: DataFrame, changes: DataFrame, spec: FoldSpec) -> int:
    """Compare the marts that a baseline serves, folded from it and from all changes; return how many there are."""
    compared = 0
    for mart, tracked in MARTS.values():
        needs = Served(
            deleted=not (isinstance(mart, Current) and mart.deletes == "hard"),
            tracked=(tracked,) if isinstance(mart, History) else (),
        )
        if SERVED[served].covers(needs):
            one = replace(spec, tracked=tracked)
            assert rows_of(all_rows(mart, found, one)) == rows_of(all_rows(mart, changes, one)), mart
            compared += 1
    return compared


def rows_by_place(seed: int, count: int) -> list[tuple[Any, ...]]:
    """Draw the changes of a source that orders them itself: times go on with the places, but for some."""
    chance = Random(seed)
    rows: list[tuple[Any, ...]] = []
    for number in range(count):
        # Behind the horizon every other transaction began long before.
        share = 0.5 if EDGE <= number < EDGE + 60 else 0.015
        back = 20 if chance.random() < share else 0
        at = BEGIN + timedelta(seconds=number // 3 - back)
        is_delete = chance.random() < 0.25
        values: list[str | None] = [None] * 3 if is_delete else [chance.choice("aaab"), chance.choice("xxxy"), "p"]
        known = None
        if not is_delete and chance.random() < 0.2:
            values, known = [values[0], None, None], ["id", "ts", "value"]
        kind = "delete" if is_delete else "upsert"
        key = chance.randrange(60 if number < EDGE - 100 else 30)  # the others are quiet from then on
        source = at + timedelta(seconds=chance.choice((0, 0, 1, 20))) if is_delete and chance.random() < 0.7 else None
        rows.append((key, at, *values, kind, f"1/{number:06}", number + 1, "f", 2, known, source))
    return rows


@pytest.mark.long
@pytest.mark.parametrize("moves", [False, pytest.param(True, marks=pytest.mark.laws)])
@pytest.mark.parametrize("served", cases("coarse"))
def test_a_baseline_to_a_place_folds_to_what_all_changes_fold_to(
    served: str, spark: SparkSession, *, moves: bool
) -> None:
    drawn = rows_by_place(9, 1500)
    spec = replace(SPEC, sequence_by=())
    changes = with_event_time(spark.createDataFrame(with_moves(drawn, 9) if moves else drawn, SILVER), spec)
    changes = changes.localCheckpoint()
    older = f"_cdc_position < '1/{EDGE:06}'"
    before = min(row[1] for row in drawn[EDGE:])
    made = baseline(served, before=f"{before:%Y-%m-%d %H:%M:%S.%f}", by_place=True)

    kept = baseline_rows(changes.where(older), spec, made, moves=moves).localCheckpoint()

    assert kept.columns == [name for name in changes.columns if name != EVENT_TIME]
    assert kept.count() < changes.where(older).count()
    assert max(row[1] for row in drawn[:EDGE]) > before  # some are not before the time of the horizon
    found = with_event_time(kept, spec).unionByName(changes.where(f"NOT {older}"))
    assert compare(served, found, changes, spec) == {"hard": 1, "soft": 2, "close": 6, "coarse": 4}[served]


def test_a_baseline_serves_what_needs_no_more() -> None:
    fine = Served(deleted=True, tracked=(("a", "b"), ("c",)))

    assert fine.covers(Served())
    assert fine.covers(Served(deleted=True, tracked=(("b",), ("c",), ())))
    assert not fine.covers(Served(deleted=True, tracked=(("a", "c"),)))
    assert not Served().covers(Served(deleted=True))
    assert not Served(deleted=True).covers(Served(deleted=True, tracked=((),)))
