"""Fold, fill and find late changes in the driver's memory; the Arrow version of the Spark folds of marts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.marts import late
from frazil.marts.late import DELETE_ONLY, IS_LIVE, LATE, RECOMPUTE, SUPERSEDED
from frazil.marts.layout import EVENT_TIME
from frazil.spec import Current, History
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.marts.layout import FoldSpec


BEGINS: Final = "_cdc_begins"
"""The least value of the first order column among the changes of a key."""
INCOMPLETE: Final = "_cdc_incomplete"
"""Whether some upsert of the key does not carry every column, so that older changes fill it."""
_AT, _VALUES = "_cdc_at", "_cdc_values"
_MINE, _THEIRS = "_cdc_mine", "_cdc_theirs"
_TOLD_AT: Final = "_cdc_told_at"
_NO_TIME: Final = -(2**63)
"""Comes before all times."""
_TIME: Final = pa.timestamp("us", tz="UTC")
_TIMES: Final = (EVENT_TIME, r.SOURCE_TIME)


def newest_arrow(changes: pa.Table, spec: FoldSpec) -> pa.Table | NeedsSpark:
    """Keep, of every key, its newest change and the values of its newest upsert.

    Args:
        changes: n change rows in the shape of silver, in any order, repeats allowed. A column that a change does not
            carry is NULL; see ``_cdc_incomplete``.
        spec: the table's parts.

    Returns:
        One row per key, in any order: the contract's columns, those of the newest upsert or NULL beside the keys;
        ``_cdc_event_time``, ``_cdc_source_time``, ``_cdc_position`` and ``_cdc_row`` of the newest change;
        ``_cdc_begins``;
        ``_cdc_incomplete``, ``_cdc_is_live`` and ``_cdc_delete_only``. Spark is needed if two changes of a key
        differ in content but not in order: only Spark has the hash that orders them.

    Cost: a sort of the order columns, a hash of the keys, and memory for a copy of the changes.
    """
    if has_ties(changes, spec):
        return NeedsSpark("ties")
    is_upsert = pc.equal(changes[r.CLASS], r.UPSERT)
    oldest_first = ranked(changes, spec)
    rank = pa.array(range(changes.num_rows), pa.int64())
    values = pc.if_else(is_upsert.take(oldest_first), rank, pa.scalar(None, pa.int64()))
    incomplete = is_incomplete(changes, spec).take(oldest_first)
    keys = grouped_keys(changes, spec).take(oldest_first)
    for name, column in ((_AT, rank), (_VALUES, values), (INCOMPLETE, incomplete)):
        keys = keys.append_column(name, column)
    folded = keys.group_by([*spec.keys]).aggregate([(_AT, "max"), (_AT, "min"), (_VALUES, "max"), (INCOMPLETE, "max")])
    last, first, last_upsert = (
        oldest_first.take(folded[name]) for name in (f"{_AT}_max", f"{_AT}_min", f"{_VALUES}_max")
    )
    columns = {name: folded[name] if name in spec.keys else changes[name].take(last_upsert) for name in spec.columns}
    newest = changes.select([*dict.fromkeys((*spec.event_times, r.SOURCE_TIME, r.POSITION, r.ROW))]).take(last)
    return pa.table(
        columns
        | {
            EVENT_TIME: event_times(newest, spec),
            r.SOURCE_TIME: newest[r.SOURCE_TIME],
            r.POSITION: newest[r.POSITION],
            r.ROW: newest[r.ROW],
            BEGINS: changes[spec.order_columns[0]].take(first),
            INCOMPLETE: folded[f"{INCOMPLETE}_max"],
            IS_LIVE: is_upsert.take(last),
            DELETE_ONLY: pc.is_null(last_upsert),
        }
    )


def ranked(changes: pa.Table, spec: FoldSpec) -> pa.Array:
    """Return the indexes of the changes, oldest first; equal changes in any order. NaN is the greatest number."""
    # At one place a delete precedes an upsert, as it does in the alphabet. Equal changes may have different times.
    order = [*dict.fromkeys((*spec.order_columns, r.CLASS))]
    times = pc.fill_null(changes[r.SOURCE_TIME].cast(pa.int64()), _NO_TIME)
    rows = changes.select(order).append_column(_TOLD_AT, times)
    return pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in rows.column_names])


def has_ties(changes: pa.Table, spec: FoldSpec) -> bool:
    """Return whether two changes of a key differ in content but not in order."""
    at = [r.POSITION, r.ROW]
    if _groups(changes, at) == changes.num_rows:
        return False
    order = [*dict.fromkeys((*spec.keys, *spec.order_columns, r.CLASS))]
    if any(pa.types.is_nested(changes.schema.field(name).type) for name in spec.columns):
        return bool(_groups(changes, order) < changes.num_rows)  # Arrow does not group by nested values
    return _groups(changes, order) < _groups(changes, [*dict.fromkeys((*order, *spec.columns))])


def _groups(rows: pa.Table, names: list[str]) -> int:
    return len(rows.select(names).group_by(names).aggregate([]))


def grouped_keys(changes: pa.Table, spec: FoldSpec) -> pa.Table:
    """Return the keys as Spark groups them: negative zero becomes zero."""
    keys = changes.select(spec.keys)
    return pa.table([pc.add(key, 0.0) if pa.types.is_floating(key.type) else key for key in keys.columns], keys.schema)


def is_incomplete(changes: pa.Table, spec: FoldSpec) -> pa.ChunkedArray:
    """Return a mask of incomplete upserts; the Arrow version of :func:`frazil.marts.late.incomplete_sql`."""
    oldest = max(spec.since.values(), default=0)
    lacks = pc.or_(pc.is_valid(changes[r.KNOWN]), pc.less(changes[r.BATCH], oldest))
    return pc.and_(pc.equal(changes[r.CLASS], r.UPSERT), lacks)


def event_times(changes: pa.Table, spec: FoldSpec) -> pa.Array | pa.ChunkedArray:
    """Return event times; the Arrow version of :func:`frazil.marts.layout.with_event_time`."""
    times = [timestamps(changes[name]) for name in spec.event_times]
    return pc.coalesce(*times) if times else pa.nulls(changes.num_rows, _TIME)


def times_of_deletes(deletes: pa.Table, told: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times of deletes with both times; the Arrow version of :func:`frazil.marts.layout.time_of_delete`."""
    declared, source = (deletes[name] for name in _TIMES)
    is_own = pc.or_(pc.is_null(told), pc.fill_null(pc.greater(declared, told), fill_value=False))
    return pc.if_else(is_own, pc.coalesce(declared, source), later(source, told))


def later(one: pa.ChunkedArray | pa.Array, other: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return the later of two times, row by row; NULL is the earliest."""
    is_one = pc.or_(pc.is_null(other), pc.fill_null(pc.greater(one, other), fill_value=False))
    return pc.if_else(is_one, one, other)


def timestamps(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times of any type as timestamps."""
    has_zone = pa.types.is_timestamp(times.type) and times.type.tz is not None
    return times.cast(_TIME) if has_zone else pc.assume_timezone(times.cast(pa.timestamp("us")), "UTC")


def match_keys(keys: pa.Table, others: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """Return, for each row of ``keys``, the number of the row of ``others`` with the same key, or NULL.

    Args:
        keys: n rows with unique keys.
        others: m rows with unique keys; key types may be wider.
        names: the key columns.
    """
    mine, theirs = (
        rows.select([*names]).append_column(number, pa.array(range(rows.num_rows), pa.int64()))
        for rows, number in ((keys, _MINE), (others, _THEIRS))
    )
    # A key of the mart may have a wider type than the key of the batch.
    theirs = theirs.cast(pa.schema([*(mine.schema.field(name) for name in names), theirs.schema.field(_THEIRS)]))
    both = theirs.join(mine, keys=[*names], join_type="inner")
    return both[_THEIRS].take(pc.index_in(mine[_MINE], value_set=both[_MINE]))


def fill_arrow(changes: pa.Table, key_numbers: pa.ChunkedArray, held: pa.Table, spec: FoldSpec) -> pa.Table:
    """Fill a column that a change does not carry with the value in force just before it (MISSING-IS-NOT-NULL).

    Args:
        changes: n change rows in the shape of silver, in any order, all newer than ``held``.
        key_numbers: n numbers from 0, the same for the changes of one key.
        held: the values in force before, with the row of key ``i`` at ``i``; NULL for a key without a row.
        spec: the table's parts.

    Returns:
        The same rows in another order, with every contract column of upserts filled; other columns are unchanged.

    Cost: a sort of the order columns, and memory for a copy of the changes.
    """
    oldest_first = ranked(changes, spec)
    changes, key_numbers = changes.take(oldest_first), key_numbers.take(oldest_first)
    by_key = pc.sort_indices(key_numbers)  # stable
    changes, key_numbers = changes.take(by_key).combine_chunks(), key_numbers.take(by_key).combine_chunks()
    number = changes.num_rows
    rows = pa.array(range(number), pa.int64())
    is_first = pc.not_equal(key_numbers, pa.concat_arrays([pa.array([-1], key_numbers.type), key_numbers[:-1]]))
    held_at = pc.if_else(is_first, pc.add(key_numbers, number), pa.scalar(None, pa.int64()))
    is_delete = pc.not_equal(changes[r.CLASS], r.UPSERT)
    for name in lacking_columns(changes, spec):
        carries = _carries(changes, name, spec)
        # A delete ends all values: it counts as NULL in every column.
        own = pc.if_else(carries, changes[name], pa.scalar(None, changes[name].type))
        at = pc.if_else(pc.or_(carries, is_delete), rows, held_at)
        values = pa.chunked_array([*own.chunks, *held[name].chunks], own.type)
        filled = values.take(pc.fill_null_forward(at))
        changes = changes.set_column(changes.schema.get_field_index(name), name, filled)
    return changes


def lacking_columns(changes: pa.Table, spec: FoldSpec) -> list[str]:
    """Return the columns that some upsert does not carry, in table order.

    Deletes do not count: a delete ends all values.
    """
    some = changes.filter(is_incomplete(changes, spec)) if spec.fills else changes.slice(0, 0)
    if not some.num_rows:
        return []
    fixed = {*spec.keys, *spec.sequence_by}
    return [name for name in spec.columns if name not in fixed and not pc.all(_carries(some, name, spec)).as_py()]


def _carries(changes: pa.Table, name: str, spec: FoldSpec) -> pa.ChunkedArray:
    """Return a mask of upserts that carry a column."""
    known = changes[r.KNOWN].combine_chunks()
    parents = pc.list_parent_indices(known).filter(pc.equal(pc.list_flatten(known), name))
    lists = pc.is_in(pa.array(range(changes.num_rows), parents.type), value_set=parents)
    everything = pc.and_(pc.is_null(known), pc.greater_equal(changes[r.BATCH], spec.since.get(name, 0)))
    return pc.and_(pc.equal(changes[r.CLASS], r.UPSERT), pc.or_(everything, lists))


KEY_NUMBER: Final = "_cdc_key_number"
_RANK = "_cdc_rank"


def tombstones_arrow(deletes: pa.Table, spec: FoldSpec) -> pa.Table:
    """Return the newest delete of each key; the Arrow version of :func:`frazil.marts.late.tombstones`.

    Args:
        deletes: deletes of earlier batches for the keys of a batch, with the keys, the order columns, the class, and
            the columns of event time and source time.
        spec: the table's parts.
    """
    latest = later(event_times(deletes, spec), deletes[r.SOURCE_TIME])
    deletes = deletes.append_column(EVENT_TIME, latest).take(ranked(deletes, spec))
    deletes = deletes.append_column(_RANK, pa.array(range(deletes.num_rows), pa.int64()))
    newest = deletes.group_by([*spec.keys]).aggregate([(_RANK, "max"), (EVENT_TIME, "max")])
    order = deletes.select([*spec.order_columns]).take(newest[f"{_RANK}_max"]).combine_chunks()
    held = pa.StructArray.from_arrays([_whole(column) for column in order.columns], [*spec.order_columns])
    keys = newest.select([*spec.keys])
    return keys.append_column(late.HELD, held).append_column(late.HELD_TIME, newest[f"{EVENT_TIME}_max"])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def verdicts_arrow(
    changes: pa.Table,
    keys: pa.Array,
    held: Sequence[pa.Table],
    mart: Current | History,
    spec: FoldSpec,
    *,
    newest_time: int | None,
) -> pa.Table | NeedsSpark:
    """Find late changes of keys, by the newest order already held for each key.

    Args:
        changes: n changes, with event time.
        keys: n numbers, the same for the changes of one key.
        held: tables of n rows each with the order columns and the event time; all NULL for a key without a row.
        mart: the mart.
        spec: the table's parts.
        newest_time: as for :func:`frazil.marts.late.is_not_after`.

    Returns:
        One row per key: ``_cdc_key_number``, and ``_cdc_late``, ``_cdc_recompute`` and
        ``_cdc_superseded`` of :mod:`frazil.marts.late`. Spark is needed if an order column has a type or
        a NULL that Arrow compares differently than Spark.
    """
    is_late = pa.repeat(False, changes.num_rows)
    is_not_after = is_late
    for rows in held:
        older = _not_newer(changes, rows, spec)
        if older is None:
            return NeedsSpark("type")
        is_late = pc.or_(is_late, older)
        is_not_after = pc.or_(is_not_after, _not_after(changes[EVENT_TIME], rows, spec, newest_time))
    is_hard = isinstance(mart, Current) and mart.deletes == "hard" and not spec.fills
    if isinstance(mart, History):
        again = pc.or_(is_late, is_not_after)
    else:  # An upsert with every column needs no older change: a late one is dropped.
        again = pa.repeat(False, changes.num_rows) if is_hard else is_late
    judged = pa.table({KEY_NUMBER: keys, LATE: pc.cast(is_late, pa.int64()), RECOMPUTE: again, SUPERSEDED: is_late})
    verdicts = judged.group_by(KEY_NUMBER).aggregate([(LATE, "sum"), (RECOMPUTE, "max"), (SUPERSEDED, "min")])
    return verdicts.rename_columns([KEY_NUMBER, LATE, RECOMPUTE, SUPERSEDED])


def _not_after(
    times: pa.ChunkedArray, held: pa.Table, spec: FoldSpec, newest_time: int | None
) -> pa.ChunkedArray | pa.Array:
    """Return a mask; the Arrow version of :func:`frazil.marts.late.is_not_after`, for the held row of each change."""
    there = pc.is_valid(held[r.POSITION])
    if not spec.times_follow_order and newest_time is None:
        return there
    ends = held[EVENT_TIME] if spec.times_follow_order else pa.scalar(newest_time, pa.int64()).cast(times.type)
    is_not_after = pc.less_equal(times, ends)
    return pc.and_(there, pc.fill_null(is_not_after, fill_value=True))


def _not_newer(changes: pa.Table, held: pa.Table, spec: FoldSpec) -> pa.ChunkedArray | None:
    """Return a mask of changes not newer than their held row; None if only Spark can compare them."""
    there = pc.is_valid(held[r.POSITION])
    not_newer = there  # if all columns are equal
    for name in reversed(spec.order_columns):
        one, other = changes[name], held[name]
        if pa.types.is_floating(other.type) or pa.types.is_nested(other.type) or one.null_count:
            return None
        if not pc.all(pc.equal(pc.is_valid(other), there)).as_py():
            return None
        one = one.cast(other.type)
        not_newer = pc.or_(pc.less(one, other), pc.and_(pc.equal(one, other), not_newer))
    return pc.fill_null(pc.and_(not_newer, there), fill_value=False)
