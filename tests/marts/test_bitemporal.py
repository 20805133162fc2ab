"""HISTORY, in two times: each version, and when it was known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pytest

from frazil.marts.bitemporal import known_open_versions, known_times, known_versions
from frazil.marts.late import filter_keys
from frazil.marts.layout import FoldSpec, with_event_time
from frazil.testing import oracle
from frazil.testing.oracle import Change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = ("id", "ts", "value", "seen")
SPEC = FoldSpec(keys=("id",), sequence_by=("ts",), columns=COLUMNS, event_times=("ts",), tracked=("value",))
SILVER = (
    "id int, ts timestamp, value string, seen int, _cdc_class string, _cdc_position string, _cdc_row bigint, "
    "_cdc_file string, _cdc_batch bigint, _cdc_known array<string>, _cdc_source_time timestamp"
)
BATCHES = 6
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def at(second: int) -> datetime:
    return MONDAY + timedelta(seconds=second)


def known_at(batch: int) -> datetime:
    """The clock stands still from the second batch to the third."""
    return MONDAY + timedelta(days=1, hours=batch if batch != 3 else 2)


def drawn(seed: int, keys: int, *, partial: bool = False) -> list[tuple[int, Change]]:
    """Draw changes of some keys, each with its batch: late ones, deletes, some that come again or carry less."""
    lot, found = Random(seed), list[tuple[int, Change]]()
    for key in range(keys):
        for row in range(lot.randint(1, 6)):
            second, value = lot.randint(0, 8), lot.choice((None, "a", "b"))
            values = {"id": key, "ts": at(second), "value": value, "seen": lot.randint(0, 1)}
            if partial and lot.random() < 0.4:
                del values[lot.choice(("value", "seen"))]
            source = lot.choice((None, at(lot.randint(0, 12))))
            change = Change((key,), (at(second),), "1/f/", row, lot.random() < 0.3, values, at(second), source)
            found.append((lot.randint(1, BATCHES), change))
            if lot.random() < 0.1:
                found.append((lot.randint(1, BATCHES), change))
    return found


def silver(spark: SparkSession, changes: list[tuple[int, Change]]) -> DataFrame:
    rows = [
        (
            *(one.values.get(name) for name in COLUMNS),
            "delete" if one.deleted else "upsert",
            one.position,
            one.row,
            "f",
            batch,
            None if len(one.values) == len(COLUMNS) else [*one.values],
            one.source_time if one.deleted else None,
        )
        for batch, one in changes
    ]
    return with_event_time(spark.createDataFrame(rows, SILVER), SPEC)


def times(spark: SparkSession) -> DataFrame:
    """Return when batches were known; some files arrived before the files of an earlier batch."""
    arrivals = [(batch, known_at(batch)) for batch in range(1, BATCHES + 1) if batch != 3]
    arrivals += [(batch, MONDAY) for batch in range(1, BATCHES + 1)]
    return known_times(
        spark.createDataFrame(arrivals, "_cdc_batch bigint, _cdc_arrived_at timestamp")
    ).localCheckpoint()


def plain(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(", ".join(f"{name}={row[name]}" for name in sorted(row)) for row in rows)


def collected(rows: DataFrame) -> Counter[str]:
    return plain([*rows.toArrow().to_pylist()])


@pytest.mark.long
@pytest.mark.parametrize("steps", [pytest.param((1, 2, 3, 4, 5, 6), marks=pytest.mark.laws), (2, 5, 6)])
@pytest.mark.parametrize(("deletes", "partial"), [pytest.param("close", False, marks=pytest.mark.laws), ("mark", True)])
def test_each_batch_is_known_as_the_fold_of_the_changes_up_to_it(
    deletes: Literal["close", "mark"], steps: tuple[int, ...], spark: SparkSession, *, partial: bool
) -> None:
    """CONVERGE: all at once, batch by batch, and several batches at a time end in the same rows."""
    spec = replace(SPEC, partial=partial)
    changes = drawn(7 if deletes == "close" else 8, keys=150, partial=partial)
    by_batch = [
        (known_at(batch), [one for number, one in changes if number == batch]) for batch in range(1, BATCHES + 1)
    ]
    want = plain(oracle.bitemporal(by_batch, COLUMNS, SPEC.tracked, deletes))
    every, when = silver(spark, changes).localCheckpoint(), times(spark)

    assert collected(known_versions(every, when, spec, deletes)) == want
    rows: DataFrame | None = None
    after = 0
    for upto in steps:
        touched = every.where(f"_cdc_batch > {after} AND _cdc_batch <= {upto}").select("id").distinct()
        so_far = filter_keys(every.where(f"_cdc_batch <= {upto}"), touched, ("id",))
        held = None if rows is None else filter_keys(rows, touched, ("id",))
        made = known_versions(so_far, when, spec, deletes, held=held, after=after)
        rest = None if rows is None else filter_keys(rows, touched, ("id",), among=False)
        rows = (made if rest is None else rest.unionByName(made)).localCheckpoint()
        after = upto
    assert rows is not None
    assert collected(rows) == want


@pytest.mark.long
def test_a_key_with_one_change_is_known_from_its_batch_on(spark: SparkSession) -> None:
    changes = [(batch, one) for batch, one in drawn(9, keys=30) if one.row == 0]
    single = [(batch, one) for batch, one in changes if sum(one.key == other.key for _, other in changes) == 1]
    every, when = silver(spark, single), times(spark)

    assert collected(known_open_versions(every, when, SPEC)) == collected(known_versions(every, when, SPEC, "close"))
