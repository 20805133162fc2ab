"""Versions built in memory, against the oracle and against Spark."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.marts.arrow.history import next_versions_arrow
from frazil.marts.history import next_versions
from frazil.marts.layout import FoldSpec
from frazil.runner.batch.driver_batch import spark_frame, spark_types
from frazil.steps import NeedsSpark
from frazil.testing import oracle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    Row = dict[str, Any]
    Deletes = Literal["close", "mark"]

COLUMNS = ("id", "ts", "at", "value", "note")
SPEC = FoldSpec(keys=("id",), sequence_by=("ts",), columns=COLUMNS, event_times=("at",), tracked=("value",))
TIME = pa.timestamp("us", tz="UTC")
OWN = {"_cdc_position": pa.string(), "_cdc_row": pa.int64()}
CHANGES = {
    "id": pa.int64(),
    "ts": pa.int64(),
    "at": TIME,
    "value": pa.string(),
    "note": pa.string(),
    **OWN,
    "_cdc_class": pa.string(),
    "_cdc_event_time": TIME,
    "_cdc_source_time": TIME,
}
VERSIONS = {
    "valid_from": TIME,
    "valid_to": TIME,
    "is_current": pa.bool_(),
    "is_deleted": pa.bool_(),
}


def moment(second: int) -> dt.datetime:
    """A moment; few of them, so that many are equal."""
    return dt.datetime(2026, 1, 1, 0, 0, second, tzinfo=dt.UTC)


def drawn(ids: Sequence[int], seconds: st.SearchStrategy[int | None], latest: int = 9) -> st.SearchStrategy[Row]:
    """Draw changes of some keys; at most one has an order, see ``numbered``."""
    return st.fixed_dictionaries(
        {
            "id": st.sampled_from(ids),
            "at": seconds.map(lambda second: None if second is None else moment(second)),
            "value": st.sampled_from([None, "a", "b"]),
            "note": st.sampled_from([None, "x", "y"]),
            "_cdc_class": st.sampled_from(["upsert", "upsert", "delete"]),
            "_cdc_source_time": st.none() | st.integers(0, latest).map(moment),
        }
    )


def numbered(rows: list[Row], begin: int) -> list[Row]:
    return [row | {"ts": number, "_cdc_position": "1/f", "_cdc_row": number} for number, row in enumerate(rows, begin)]


def with_snapshots(rows: Sequence[Row], taken: Sequence[tuple[int, int, int]]) -> list[Row]:
    """Put snapshots behind changes: where, at what second, and the key that each brings again; it empties all."""
    found = list(rows)
    for behind, second, key in taken:
        at = {"at": moment(second), "ts": rows[behind % len(rows)]["ts"], "_cdc_position": f"1/s{second}"}
        step = {"value": None, "note": None, "_cdc_source_time": moment(second), "_cdc_class": "delete", "_cdc_row": 1}
        # A delete may be there twice.
        found += [at | step | {"id": one, "at": None} for one in (1, 2, 3, key)]
        brought = {"value": "a", "note": "x", "_cdc_source_time": None, "_cdc_class": "upsert", "_cdc_row": 2}
        found.append(at | brought | {"id": key, "_cdc_position": f"1/s{second}+"})
    return found


def believed(rows: Sequence[Row], deletes: Deletes) -> list[Row]:
    return oracle.history(
        [
            oracle.Change(
                key=(row["id"],),
                sequence=(row["ts"],),
                position=row["_cdc_position"],
                row=row["_cdc_row"],
                deleted=row["_cdc_class"] == "delete",
                values={name: row[name] for name in COLUMNS},
                event_time=row["at"],
                source_time=row["_cdc_source_time"],
                snapshot=row["_cdc_position"].rstrip("+") if "/s" in row["_cdc_position"] else "",
            )
            for row in rows
        ],
        COLUMNS,
        SPEC.tracked,
        deletes,
    )


def numbers_of(table: pa.Table) -> pa.Array:
    return table["id"].combine_chunks()


def ordered(rows: Sequence[Row]) -> list[str]:
    """Rows as texts, in which NaN is equal to itself."""
    return sorted(str({name: f"{row[name]}" for name in sorted(row)}) for row in rows)


@pytest.mark.parametrize("deletes", ["close", "mark"])
@given(
    # An event time is after those of earlier batches, and may run against the order within its own.
    st.lists(drawn([1, 2], st.integers(0, 3), 4), max_size=8),
    st.lists(st.one_of(drawn([1, 2], st.integers(5, 8)), drawn([3], st.none() | st.integers(0, 3))), max_size=10),
    st.randoms(),
)
def test_versions_in_memory_are_those_that_the_oracle_says(
    deletes: Deletes, old: list[Row], new: list[Row], chance: Any
) -> None:
    """HISTORY: what a batch leaves of its keys, with what stays of the others, is a history of all changes."""
    old, new = numbered(old, 0), numbered(new, 100)
    before, after = believed(old, deletes), believed([*old, *new], deletes)
    touched = {row["id"] for row in new}
    is_held = [row["is_current"] and row["id"] in touched for row in before]
    held = [row for row, goes in zip(before, is_held, strict=True) if goes]
    batch = [*new, *new[::3]]
    chance.shuffle(batch)
    timed = [row | {"_cdc_event_time": row["at"]} for row in batch]
    changes, rows = (
        pa.Table.from_pylist(timed, schema=pa.schema(CHANGES)),
        pa.Table.from_pylist(held, schema=pa.schema({name: CHANGES[name] for name in COLUMNS} | VERSIONS | OWN)),
    )

    built = next_versions_arrow(changes, numbers_of(changes), rows, numbers_of(rows), SPEC, deletes=deletes)

    assert not isinstance(built, NeedsSpark)
    stays = [row for row, goes in zip(before, is_held, strict=True) if not goes]
    assert ordered([*stays, *built.to_pylist()]) == ordered(after)


SNAPSHOTS = replace(SPEC, snapshot_places="1/s%+")


@pytest.mark.parametrize("deletes", ["close", "mark"])
@given(
    st.lists(drawn([1, 2], st.integers(0, 8)), min_size=1, max_size=8),
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 9), st.sampled_from([1, 2, 3])), max_size=3, unique_by=itemgetter(1)
    ),
)
def test_a_snapshot_deletes_no_row_that_it_brings(
    deletes: Deletes, rows: list[Row], taken: list[tuple[int, int, int]]
) -> None:
    """HANDOVER: a history of a table that is copied again has no version that ended with the copy."""
    batch = with_snapshots(numbered(rows, 100), taken)
    changes = pa.Table.from_pylist([row | {"_cdc_event_time": row["at"]} for row in batch], schema=pa.schema(CHANGES))
    none = pa.schema({name: CHANGES[name] for name in COLUMNS} | VERSIONS | OWN).empty_table()

    built = next_versions_arrow(changes, numbers_of(changes), none, numbers_of(none), SNAPSHOTS, deletes=deletes)

    assert not isinstance(built, NeedsSpark)
    assert ordered(built.to_pylist()) == ordered(believed(batch, deletes))


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "bigint": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "float": (pa.float32(), [0.0, -0.0, float("nan"), float("inf"), 1.5]),
    "double": (pa.float64(), [0.0, -0.0, float("nan"), float("-inf"), 1e308]),
    "decimal(38,4)": (pa.decimal128(38, 4), [Decimal("-0.0001"), Decimal("99999999999999999999999999999999.9999")]),
    "string": (pa.string(), ["", "a", "A", "ä", "a\u0308", "a "]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "timestamp": (TIME, [moment(1), moment(2)]),
    "timestamp_ntz": (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(2026, 1, 1)]),  # noqa: DTZ001
}


@pytest.mark.spark
@pytest.mark.parametrize("deletes", ["close", "mark"])
def test_values_of_all_types_are_compared_as_spark_compares_them(deletes: Deletes, spark: SparkSession) -> None:
    chance, names = Random(7), [*VALUES]
    types = {"id": pa.int64(), "ts": pa.int64()} | {name: kind for name, (kind, _) in VALUES.items()}
    spec = FoldSpec(keys=("id",), sequence_by=("ts",), columns=tuple(types), event_times=(), tracked=tuple(names))

    def states(number: int) -> Row:
        """Values of a key: of two changes in a row hardly more than one column differs."""
        only = names[number % len(names)]
        return {name: None if name != only else chance.choice([None, *VALUES[name][1]]) for name in names}

    def changes(keys: int, each: int, begin: int) -> list[Row]:
        rows = (states(number) | {"id": number, "ts": begin + one} for number in range(keys) for one in range(each))
        classes = ["upsert"] * 5 + ["delete"]
        return [
            row
            | {"_cdc_position": "1/f", "_cdc_row": 1, "_cdc_class": chance.choice(classes)}
            | {"_cdc_event_time": moment(row["ts"]), "_cdc_source_time": chance.choice([None, moment(7), moment(12)])}
            for row in rows
        ]

    own_times = {"_cdc_event_time": TIME, "_cdc_source_time": TIME}
    schema = pa.schema(types | OWN | {"_cdc_class": pa.string()} | own_times)
    held = pa.Table.from_pylist(changes(300, 1, 1), schema=schema)
    held = held.append_column("valid_from", held["_cdc_event_time"])
    held = held.append_column("is_deleted", pc.equal(held["_cdc_class"], "delete"))
    held = held.drop_columns(["_cdc_class", *own_times])
    if deletes == "close":  # of a key whose row was deleted there is no open version
        held = held.filter(pc.invert(held["is_deleted"]))
    new = pa.Table.from_pylist(changes(330, 4, 10), schema=schema)

    built = next_versions_arrow(new, numbers_of(new), held, numbers_of(held), spec, deletes=deletes)

    assert not isinstance(built, NeedsSpark)
    own = {"_cdc_position": "string", "_cdc_row": "bigint"}
    shown = {"id": "bigint", "ts": "bigint"} | dict(zip(VALUES, VALUES, strict=True)) | own
    in_spark = (
        spark_frame(spark, new, spark_types(shown | {"_cdc_class": "string"} | dict.fromkeys(own_times, "timestamp"))),
        spark_frame(spark, held, spark_types(shown | {"valid_from": "timestamp", "is_deleted": "boolean"})),
    )
    spark_built = next_versions(*in_spark, spec, deletes).toArrow()
    assert built.num_rows > 1000
    have, want = ordered(built.to_pylist()), ordered(spark_built.to_pylist())
    assert [one for one in have if one not in want] == [one for one in want if one not in have] == []
    assert have == want


@pytest.mark.parametrize(
    ("of_batch", "of_mart"),
    [(pa.int32(), pa.int64()), (pa.decimal128(10, 2), pa.decimal128(12, 2)), (pa.list_(pa.string()),) * 2],
)
def test_values_that_arrow_and_spark_compare_differently_go_to_spark(
    of_batch: pa.DataType, of_mart: pa.DataType
) -> None:
    spec = FoldSpec(keys=("id",), sequence_by=("ts",), columns=("id", "ts", "value"), tracked=("value",))
    types = {"id": pa.int64(), "ts": pa.int64()}
    changes = pa.schema(types | {"value": of_batch} | OWN).empty_table()
    held = pa.schema(types | {"value": of_mart} | OWN).empty_table()

    built = next_versions_arrow(changes, numbers_of(changes), held, numbers_of(held), spec, deletes="close")

    assert built == NeedsSpark("type")
