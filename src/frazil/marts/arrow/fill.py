"""Fill changes in the driver's memory; the Arrow version of :func:`frazil.marts.fold.fill_from`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.marts.arrow.fold import is_incomplete, ranked

if TYPE_CHECKING:
    from frazil.marts.fold_spec import FoldSpec


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
