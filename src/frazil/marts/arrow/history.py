"""Build versions on the driver; the Arrow version of :func:`frazil.marts.history.next_versions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.marts.arrow.fold import event_times, ranked, times_of_deletes
from frazil.marts.layout import EVENT_TIME
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from frazil.marts.layout import FoldSpec

    Flags = NDArray[np.bool_]
    Numbers = NDArray[np.int64]


def next_versions_arrow(
    changes: pa.Table,
    change_keys: pa.Array,
    held: pa.Table,
    held_keys: pa.Array,
    spec: FoldSpec,
    *,
    deletes: Literal["close", "mark"],
) -> pa.Table | NeedsSpark:
    """Build the versions of a batch's keys after the batch: from the open version of each key on.

    Args:
        changes: n changes of the batch in the shape of silver, with event time and every column; any order, repeats
            allowed, all newer than the open versions of their keys.
        change_keys: n numbers from 0, the same for the changes of one key.
        held: the m open versions of these keys in the mart.
        held_keys: their m key numbers.
        spec: the table's parts.
        deletes: as for :func:`frazil.marts.history.versions`.

    Returns:
        The versions, as from :func:`frazil.marts.history.versions`. Spark is needed if a column has different types in
        mart and batch, or a type that Arrow compares differently than Spark.

    Cost: a sort of the order columns, and memory for a copy of changes and versions.
    """
    shown = [*spec.columns, r.POSITION, r.ROW]
    if any(not _is_alike(changes.schema.field(name).type, held.schema.field(name).type) for name in shown):
        return NeedsSpark("type")
    base = held.select(shown).append_column(EVENT_TIME, held["valid_from"])
    base = base.append_column(r.SOURCE_TIME, pa.nulls(held.num_rows, changes.schema.field(r.SOURCE_TIME).type))
    base = base.append_column(r.CLASS, pc.if_else(held["is_deleted"], r.DELETE, r.UPSERT))
    oldest_first = ranked(changes, spec)
    rows = pa.concat_tables([base, changes.select(base.column_names).take(oldest_first)]).combine_chunks()
    numbers = np.concatenate([held_keys.to_numpy(), change_keys.take(oldest_first).to_numpy()])
    by_key = np.argsort(numbers, kind="stable")  # the open version of a key precedes its changes
    if spec.snapshot_places is not None:
        by_key = by_key[~_never_went(rows, by_key, numbers[by_key], held.num_rows, spec.snapshot_places)]
    timeline = _Timeline.of(rows, by_key, numbers[by_key], held.num_rows, spec)
    return timeline.versions(rows, spec, deletes)


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    return bool(one == other) and not pa.types.is_nested(one)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timeline:
    """The effective changes, one for each event time, by key and order.

    Attributes:
        rows: row number of each change.
        known: row number of the last known values of its key; undefined for a leading delete.
        begins: mask of changes that begin a version; equal consecutive states are one version.
        is_last: mask of the last change of each key.
        is_upsert: mask of upserts.
        leads: mask of changes that are the first known of their key.
        times: event times in order; NULL is the first.
        since: number in ``times`` of each change's time.
    """

    rows: Numbers
    known: Numbers
    begins: Flags
    is_last: Flags
    is_upsert: Flags
    leads: Flags
    times: pa.Array
    since: Numbers

    @classmethod
    def of(cls, rows: pa.Table, by_key: Numbers, keys: Numbers, held: int, spec: FoldSpec) -> _Timeline:
        """Build the timeline of rows in the order ``by_key``.

        Args:
            rows: open versions, then changes.
            by_key: row numbers, sorted by key and order.
            keys: the key number of each entry of ``by_key``.
            held: number of open versions.
            spec: the table's parts.
        """
        number = np.arange(len(keys))
        is_first = _changes_at(keys)
        is_upsert = np.asarray(pc.equal(rows[r.CLASS], r.UPSERT))[by_key]
        is_held = by_key < held
        last_known = np.maximum.accumulate(np.where(is_upsert | is_held, number, 0))
        known, brings = by_key[last_known], is_upsert | is_held
        is_known = brings[last_known] & (last_known >= np.maximum.accumulate(np.where(is_first, number, 0)))
        told = event_times(rows, spec).take(pa.array(known, mask=~is_known))
        at = rows.select([EVENT_TIME, r.SOURCE_TIME]).take(pa.array(by_key))
        taken = pc.if_else(pa.array(brings), at[EVENT_TIME], times_of_deletes(at, told))
        times, since = _running_times(taken, is_first)
        # Among several upserts at one event time, which may be NULL, the last in order counts. So it is for deletes.
        differs = (since[1:] != since[:-1]) | (is_upsert[1:] != is_upsert[:-1])
        stands = _are_last(is_first) | np.append(differs, True)[: len(since)]
        rest = np.flatnonzero(stands)
        by_key, is_upsert, is_first = by_key[rest], is_upsert[rest], _changes_at(keys[rest])
        differs = np.ones(len(rest), np.bool_)
        differs[1:] = is_upsert[1:] != is_upsert[:-1]
        differs[1:] |= is_upsert[1:] & ~_equal(rows, by_key[1:], by_key[:-1], spec.tracked)
        return cls(
            rows=by_key,
            known=known[rest],
            begins=is_first | differs,
            is_last=_are_last(is_first),
            is_upsert=is_upsert,
            leads=is_first & ~is_held[rest],
            times=times,
            since=since[rest],
        )

    def versions(self, rows: pa.Table, spec: FoldSpec, deletes: Literal["close", "mark"]) -> pa.Table:
        """Build the versions, each with the values of its last change.

        Args:
            rows: the rows of the timeline.
            spec: the table's parts.
            deletes: as for :func:`frazil.marts.history.versions`.
        """
        ends = np.flatnonzero(self.is_last | _are_last(self.begins))
        starts = np.maximum.accumulate(np.where(self.begins, np.arange(len(self.rows)), 0))[ends]
        lives, is_current = self.is_upsert[ends], self.is_last[ends]
        after = np.minimum(ends + 1, len(self.rows) - 1)
        shown = placed = self.rows[ends]
        if deletes == "close":
            kept, is_deleted = lives, ~is_current & ~self.is_upsert[after]
        else:
            # A key whose first change is a delete was never live.
            kept = lives | ~self.leads[starts]
            shown, placed = np.where(lives, shown, self.known[starts]), np.where(lives, placed, self.rows[starts])
            is_deleted = ~lives
        never = np.where(is_current, 0, self.since[after])
        values, places = rows.select([*spec.columns]).take(shown[kept]), rows.take(placed[kept])
        return pa.table(
            dict(zip(values.column_names, values.columns, strict=True))
            | {
                "valid_from": self.times.take(pa.array(self.since[starts][kept])),
                "valid_to": self.times.take(pa.array(never[kept])),
                "is_current": is_current[kept],
                "is_deleted": is_deleted[kept],
                r.POSITION: places[r.POSITION],
                r.ROW: places[r.ROW],
            }
        )


def _never_went(rows: pa.Table, by_key: Numbers, keys: Numbers, held: int, snapshot_places: str) -> Flags:
    """Return a mask of a snapshot's deletes of rows that the same snapshot brings again, in the order ``by_key``."""
    places = rows[r.POSITION].take(pa.array(by_key))
    is_upsert = np.asarray(pc.equal(rows[r.CLASS], r.UPSERT))[by_key]
    brought = is_upsert & np.asarray(pc.match_like(places, snapshot_places))
    number = np.arange(len(keys))
    # The next upsert after each row, of any key; a delete may be repeated.
    then = np.minimum.accumulate(np.where(is_upsert, number, len(keys) - 1)[::-1])[::-1]
    found: Flags = ~is_upsert & (by_key >= held) & brought[then] & (keys == keys[then])
    for at in np.flatnonzero(found):
        found[at] = places[then[at]].as_py().startswith(places[at].as_py())
    return found


def _changes_at(keys: Numbers) -> Flags:
    """Return a mask of the first row of each key."""
    return np.append(True, keys[1:] != keys[:-1])[: len(keys)]


def _are_last(are_first: Flags) -> Flags:
    """Return a mask of the rows before each first row."""
    return np.append(are_first[1:], True)[: len(are_first)]


def _running_times(column: pa.ChunkedArray, is_first: Flags) -> tuple[pa.Array, Numbers]:
    """Return all times, NULL first, and for each row the number of the greatest time so far in its key."""
    some = pc.unique(column.drop_null())
    some = some.take(pc.sort_indices(some))
    times = pa.concat_arrays([pa.nulls(1, some.type), some])
    numbers = pc.fill_null(pc.add(pc.index_in(column, value_set=some).cast(pa.int64()), 1), 0).to_numpy()
    apart = (np.cumsum(is_first) - 1) * len(times)  # times of a key exceed those of the previous one
    return times, np.maximum.accumulate(numbers + apart) - apart


def _equal(rows: pa.Table, ones: Numbers, others: Numbers, names: Sequence[str]) -> Flags:
    """Return a mask of row pairs with equal columns; NULL equals NULL, and NaN equals NaN."""
    equal = np.ones(len(ones), np.bool_)
    for name in names:
        column = rows[name]
        one, other = column.take(pa.array(ones)), column.take(pa.array(others))
        same = pc.or_(pc.fill_null(pc.equal(one, other), fill_value=False), pc.and_(pc.is_null(one), pc.is_null(other)))
        if pa.types.is_floating(column.type):
            both = pc.and_(pc.is_nan(one), pc.is_nan(other))
            same = pc.or_(same, pc.fill_null(both, fill_value=False))
        equal &= np.asarray(same)
    return equal
