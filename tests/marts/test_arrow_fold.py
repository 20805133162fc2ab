"""Folding in memory, against a fold in plain Python."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.marts.arrow.fold import newest_arrow
from frazil.marts.layout import FoldSpec
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEC = FoldSpec(
    keys=("h", "id"),
    sequence_by=("ts",),
    columns=("h", "note", "id", "ts"),
    event_times=("ts",),
    since={"note": 2},
)
TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    {
        "h": pa.string(),
        "note": pa.string(),
        "id": pa.int32(),
        "ts": TIME,
        "_cdc_class": pa.string(),
        "_cdc_position": pa.string(),
        "_cdc_row": pa.int64(),
        "_cdc_batch": pa.int64(),
        "_cdc_known": pa.list_(pa.string()),
        "_cdc_source_time": pa.timestamp("us", tz="UTC"),
    }
)
Change = dict[str, Any]


def at(second: int) -> dt.datetime:
    """A moment; few of them, so that many are equal."""
    return dt.datetime(2026, 1, 1, 0, 0, second, tzinfo=dt.UTC)


changes = st.fixed_dictionaries(
    {
        "h": st.sampled_from(["a", "B", ""]),
        "note": st.none() | st.sampled_from(["x", "y"]),
        "id": st.integers(-1, 1),
        "ts": st.integers(0, 3).map(at),
        "_cdc_class": st.sampled_from(["upsert", "delete"]),
        "_cdc_position": st.sampled_from(["1/a", "1/b"]),
        "_cdc_row": st.integers(1, 3),
        "_cdc_batch": st.integers(1, 2),
        "_cdc_known": st.none() | st.just(["h", "id", "ts"]),
        "_cdc_source_time": st.none() | st.just(at(9)),
    }
)


def plain(some: Sequence[Change]) -> list[Change] | None:
    """Fold in plain Python: one row a key, or None where only their content orders two changes of a key."""

    def key(change: Change) -> tuple[str, int]:
        return change["h"], change["id"]

    def order(change: Change) -> tuple[Any, ...]:
        return change["ts"], change["_cdc_position"], change["_cdc_row"], change["_cdc_class"] == "upsert"

    rows: list[Change] = []
    for (h, number), group in groupby(sorted(some, key=key), key):
        mine = sorted(group, key=lambda change: (order(change), change["_cdc_source_time"] or at(0)))
        for one, other in pairwise(mine):
            if order(one) == order(other) and one["note"] != other["note"]:
                return None
        upserts = [change for change in mine if change["_cdc_class"] == "upsert"]
        values = upserts[-1] if upserts else {}
        rows.append(
            {
                "h": h,
                "note": values.get("note"),
                "id": number,
                "ts": values.get("ts"),
                "_cdc_event_time": mine[-1]["ts"],
                "_cdc_source_time": mine[-1]["_cdc_source_time"],
                "_cdc_position": mine[-1]["_cdc_position"],
                "_cdc_row": mine[-1]["_cdc_row"],
                "_cdc_begins": mine[0]["ts"],
                "_cdc_incomplete": any(change["_cdc_known"] or change["_cdc_batch"] < 2 for change in upserts),
                "_cdc_is_live": mine[-1]["_cdc_class"] == "upsert",
                "_cdc_delete_only": not upserts,
            }
        )
    return rows


@given(st.lists(changes, max_size=12))
def test_changes_in_memory_are_folded_as_in_plain_python(some: list[Change]) -> None:
    folded = newest_arrow(pa.Table.from_pylist(some, schema=SCHEMA), SPEC)

    have = None if isinstance(folded, NeedsSpark) else sorted(folded.to_pylist(), key=lambda row: (row["h"], row["id"]))
    assert have == plain(some)


@given(st.lists(changes, max_size=8), st.randoms())
def test_neither_repeats_nor_their_order_count(some: list[Change], chance: Any) -> None:
    """CONVERGE: the same changes, some of them twice, in another order."""
    again = [*some, *some[::2]]
    chance.shuffle(again)
    one, other = (newest_arrow(pa.Table.from_pylist(rows, schema=SCHEMA), SPEC) for rows in (some, again))

    as_set = [
        rows if isinstance(rows, NeedsSpark) else {tuple(row.items()) for row in rows.to_pylist()}
        for rows in (one, other)
    ]
    assert as_set[0] == as_set[1]


def test_the_later_time_of_two_equal_changes_counts_whatever_comes_first() -> None:
    told = {"h": "a", "note": "x", "id": 1, "ts": at(1), "_cdc_class": "upsert", "_cdc_position": "1/a", "_cdc_row": 1}
    both = [told | {"_cdc_batch": 2, "_cdc_known": None, "_cdc_source_time": time} for time in (None, at(9))]

    for rows in (both, both[::-1]):
        folded = newest_arrow(pa.Table.from_pylist(rows, schema=SCHEMA), SPEC)
        assert isinstance(folded, pa.Table)
        assert folded["_cdc_source_time"].to_pylist() == [at(9)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [-(2**60), 2**60]),
        (pa.float64(), [-1.5, float("inf"), float("nan")]),
        (pa.decimal128(38, 4), [Decimal("-0.0001"), Decimal("99999999999999999999999999999999.9999")]),
        (pa.string(), ["", "A", "a", "ä", "\N{PILE OF POO}"]),
        (pa.bool_(), [False, True]),
        (pa.binary(), [b"", b"\x00", b"\x7f", b"\xff"]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(2026, 1, 1)]),
        (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 0, 1)]),  # noqa: DTZ001
    ],
)
def test_any_type_orders_changes_from_the_least_value_to_the_greatest(kind: pa.DataType, values: list[Any]) -> None:
    """ORDER, as Spark has it: NaN is the greatest number, texts and bytes go by their bytes."""
    number = len(values)
    some = {
        "id": [1] * number,
        "at": pa.array(values[::-1], kind),
        "_cdc_class": ["upsert"] * number,
        "_cdc_position": ["1"] * number,
        "_cdc_row": [*range(number)],
        "_cdc_batch": [1] * number,
        "_cdc_known": pa.nulls(number, pa.list_(pa.string())),
        "_cdc_source_time": pa.nulls(number, pa.timestamp("us", tz="UTC")),
    }
    folded = newest_arrow(pa.table(some), FoldSpec(keys=("id",), sequence_by=("at",), columns=("id", "at")))

    assert not isinstance(folded, NeedsSpark)
    [row] = folded.to_pylist()
    assert (repr(row["at"]), repr(row["_cdc_begins"])) == (repr(values[-1]), repr(values[0]))


def test_the_first_time_that_is_known_is_the_event_time() -> None:
    """A time without a zone is one in UTC, and a day begins at its midnight there."""
    some = {
        "id": [1, 2, 3],
        "day": pa.array([dt.date(2026, 1, 1), None, None]),
        "at": pa.array([None, dt.datetime(2026, 1, 2, 3), None], pa.timestamp("us")),  # noqa: DTZ001
        "ts": pa.array([at(1), at(2), at(3)], TIME),
        "_cdc_class": ["delete"] * 3,
        "_cdc_position": ["1"] * 3,
        "_cdc_row": [1, 2, 3],
        "_cdc_batch": [1] * 3,
        "_cdc_known": pa.nulls(3, pa.list_(pa.string())),
        "_cdc_source_time": pa.nulls(3, pa.timestamp("us", tz="UTC")),
    }
    spec = FoldSpec(keys=("id",), sequence_by=(), columns=("id",), event_times=("day", "at", "ts"))
    folded = newest_arrow(pa.table(some), spec)
    timeless = newest_arrow(pa.table(some), FoldSpec(keys=("id",), sequence_by=(), columns=("id",)))

    assert not isinstance(folded, NeedsSpark)
    assert not isinstance(timeless, NeedsSpark)
    assert {row["id"]: row["_cdc_event_time"] for row in folded.to_pylist()} == {
        1: dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        2: dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC),
        3: at(3),
    }
    assert timeless["_cdc_event_time"].null_count == 3


def test_zero_is_one_key_whatever_its_sign() -> None:
    some = {
        "id": [0.0, -0.0],
        "_cdc_class": ["upsert"] * 2,
        "_cdc_position": ["1"] * 2,
        "_cdc_row": [1, 2],
        "_cdc_batch": [1] * 2,
        "_cdc_known": pa.nulls(2, pa.list_(pa.string())),
        "_cdc_source_time": pa.nulls(2, pa.timestamp("us", tz="UTC")),
    }
    folded = newest_arrow(pa.table(some), FoldSpec(keys=("id",), sequence_by=(), columns=("id",)))

    assert not isinstance(folded, NeedsSpark)
    assert folded["id"].to_pylist() == [0.0]
