"""The folds as a library: DataFrame in, DataFrame out, drawn.

A change is drawn as key, second, row, class, value and batch.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.marts import late
from frazil.marts.fold import fill, hard_rows, newest, soft_rows
from frazil.marts.history import BASE, versions
from frazil.marts.layout import FoldSpec, with_event_time
from frazil.testing import draw, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPEC = FoldSpec(
    keys=("id",), sequence_by=("ts",), columns=("id", "ts", "value"), event_times=("ts",), tracked=("value",)
)
CHANGES = {"id": "int", "second": "int", "row": "int", "class": "string", "value": "string", "known": "string"}
TIMED = CHANGES | {"source": "int"}
SILVER = (
    "id int, ts timestamp, value string, _cdc_class string, _cdc_position string, _cdc_row bigint, "
    "_cdc_file string, _cdc_batch bigint, _cdc_known array<string>, _cdc_source_time timestamp"
)

STORY = """
1 | 1 | 1 | upsert | a | -
1 | 2 | 2 | upsert | b | -
2 | 1 | 3 | upsert | x | -
2 | 3 | 4 | delete | - | -
3 | 5 | 5 | delete | - | -
4 | 1 | 6 | delete | - | -
4 | 1 | 7 | upsert | n | -
5 | 1 | 8 | upsert | p | -
5 | 2 | 9 | upsert | p | -
"""


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def changes(spark: SparkSession, drawing: str, types: dict[str, str] | None = None) -> DataFrame:
    """Make change rows in the shape of silver; ``known`` names the columns carried, ``-`` all."""
    rows = [
        (
            row["id"],
            row["second"] and at(row["second"]),
            row["value"],
            row["class"],
            "1/f/",
            row["row"],
            "f",
            1,
            row["known"] and row["known"].split(),
            row.get("source") and at(row["source"]),
        )
        for row in parse(drawing, types or CHANGES)
    ]
    return with_event_time(spark.createDataFrame(rows, SILVER), SPEC)


def drawn(rows: DataFrame, *columns: str) -> list[str]:
    """Draw rows in order; times as seconds."""
    found: list[dict[str, Any]] = rows.select(*columns).toArrow().to_pylist()
    plain = [
        {name: value.second if isinstance(value, datetime) else value for name, value in row.items()} for row in found
    ]
    return sorted(" ".join(line.split()) for line in draw(plain, columns).splitlines()) if plain else []


def test_the_newest_upsert_of_a_key_is_its_row_unless_a_delete_is_newer(spark: SparkSession) -> None:
    """ORDER, DELETES (hard), UNSEEN."""
    rows = hard_rows(newest(changes(spark, STORY), SPEC), SPEC)

    assert drawn(rows, "id", "ts", "value", r.ROW) == ["1 | 2 | b | 2", "4 | 1 | n | 7", "5 | 2 | p | 9"]


def test_a_deleted_key_keeps_its_last_known_values(spark: SparkSession) -> None:
    """DELETES (soft): a key with only deletes has no row."""
    rows = soft_rows(newest(changes(spark, STORY), SPEC), SPEC)

    assert drawn(rows, "id", "ts", "value", "is_deleted", "deleted_at", r.ROW) == [
        "1 | 2 | b | false | - | 2",
        "2 | 1 | x | true | 3 | 4",
        "4 | 1 | n | false | - | 7",
        "5 | 2 | p | false | - | 9",
    ]


@pytest.mark.parametrize("repeats", [1, 2])
def test_order_of_rows_and_repeats_do_not_matter(repeats: int, spark: SparkSession) -> None:
    """CONVERGE."""
    lines = STORY.strip().splitlines()
    shuffled = "\n".join(lines[::-1] * repeats)

    rows = soft_rows(newest(changes(spark, shuffled), SPEC), SPEC)

    expected = soft_rows(newest(changes(spark, STORY), SPEC), SPEC)
    assert drawn(rows, *rows.columns) == drawn(expected, *rows.columns)


def test_a_history_has_a_version_for_every_state(spark: SparkSession) -> None:
    """HISTORY (close): equal states are one version; a key that begins with a delete begins with its upsert."""
    rows = versions(changes(spark, STORY).withColumn(BASE, F.lit(False)), SPEC, "close")

    assert drawn(rows, "id", "value", "valid_from", "valid_to", "is_current", "is_deleted", r.ROW) == [
        "1 | a | 1 | 2 | false | false | 1",
        "1 | b | 2 | - | true | false | 2",
        "2 | x | 1 | 3 | false | true | 3",
        "4 | n | 1 | - | true | false | 7",
        "5 | p | 1 | - | true | false | 9",
    ]


def test_a_marked_delete_is_a_row_with_the_last_known_values(spark: SparkSession) -> None:
    """HISTORY (mark)."""
    rows = versions(changes(spark, STORY).withColumn(BASE, F.lit(False)), SPEC, "mark")

    second = [
        line for line in drawn(rows, "id", "value", "valid_from", "valid_to", "is_deleted", r.ROW) if line[0] == "2"
    ]
    assert second == ["2 | x | 1 | 3 | false | 3", "2 | x | 3 | - | true | 4"]


def test_event_times_that_run_against_the_order_follow_it(spark: SparkSession) -> None:
    """HISTORY: a version never begins before the one it follows."""
    by_row = FoldSpec(keys=("id",), sequence_by=(), columns=SPEC.columns, event_times=("ts",), tracked=("value",))
    story = """
    1 | 5 | 1 | upsert | a | -
    1 | 3 | 2 | upsert | b | -
    1 | 7 | 3 | upsert | c | -
    """

    rows = versions(changes(spark, story).withColumn(BASE, F.lit(False)), by_row, "close")

    assert drawn(rows, "value", "valid_from", "valid_to") == ["b | 5 | 7", "c | 7 | -"]


def test_changes_without_event_time_are_no_later_than_the_one_before(spark: SparkSession) -> None:
    """HISTORY: of several at one event time, known or not, the last in order stands."""
    by_row = FoldSpec(keys=("id",), sequence_by=(), columns=SPEC.columns, event_times=("ts",), tracked=("value",))
    story = """
    1 | - | 1 | upsert | a | -
    1 | - | 2 | upsert | b | -
    1 | 7 | 3 | upsert | c | -
    1 | - | 4 | upsert | d | -
    """

    rows = versions(changes(spark, story).withColumn(BASE, F.lit(False)), by_row, "close")

    assert drawn(rows, "value", "valid_from", "valid_to", "is_current") == ["b | - | 7 | false", "d | 7 | - | true"]


def test_a_column_that_is_not_carried_has_the_value_in_force_just_before(spark: SparkSession) -> None:
    """MISSING-IS-NOT-NULL: an explicit NULL is a value, and a delete ends all values."""
    story = """
    1 | 1 | 1 | upsert | a | -
    1 | 2 | 2 | upsert | - | id ts
    1 | 3 | 3 | upsert | - | -
    1 | 4 | 4 | upsert | - | id ts
    2 | 1 | 5 | upsert | a | -
    2 | 2 | 6 | delete | - | -
    2 | 3 | 7 | upsert | - | id ts
    3 | 1 | 8 | upsert | - | id ts
    """

    rows = fill(changes(spark, story), SPEC)

    assert drawn(rows.where(F.col(r.CLASS) == r.UPSERT), "id", "ts", "value") == [
        "1 | 1 | a",
        "1 | 2 | a",
        "1 | 3 | -",
        "1 | 4 | -",
        "2 | 1 | a",
        "2 | 3 | -",
        "3 | 1 | -",
    ]


def test_a_change_is_late_when_its_key_has_a_newer_row_or_tombstone(spark: SparkSession) -> None:
    """LATE, NO-RESURRECTION: a change equal to the newest is late too, since it is applied already."""
    target = hard_rows(newest(changes(spark, "1 | 5 | 1 | upsert | a | -"), SPEC), SPEC)
    tombstones = changes(spark, "2 | 5 | 2 | delete | - | -")
    new = changes(
        spark,
        """
        1 | 4 | 3 | upsert | late    | -
        1 | 5 | 1 | upsert | a       | -
        1 | 6 | 4 | upsert | newer   | -
        2 | 4 | 5 | upsert | late    | -
        2 | 6 | 6 | upsert | newer   | -
        3 | 1 | 7 | upsert | unknown | -
        """,
    )

    touched = new.select("id")
    held = late.held_order(with_event_time(target, SPEC), SPEC)
    judged = late.with_prior_order(new, held, late.tombstones(tombstones, touched, SPEC), SPEC)

    assert drawn(judged.selectExpr("*", f"{late.is_late(SPEC)} AS late"), "id", "ts", "value", "late") == [
        "1 | 4 | late | true",
        "1 | 5 | a | true",
        "1 | 6 | newer | false",
        "2 | 4 | late | true",
        "2 | 6 | newer | false",
        "3 | 1 | unknown | false",
    ]
