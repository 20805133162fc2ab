"""Find late changes of a batch on the driver; the Arrow version of :mod:`frazil.marts.late`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.marts import late
from frazil.marts.arrow.fold import event_times, later, ranked
from frazil.marts.fold_spec import EVENT_TIME
from frazil.marts.late import LATE, RECOMPUTE, SUPERSEDED
from frazil.spec import Current, History
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.marts.fold_spec import FoldSpec

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
