"""Find late changes of a batch in the driver's memory, and decide the treatment of their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.lake.row_lookup import AT_FILE, AT_POS
from frazil.marts import late
from frazil.marts.arrow.fold import (
    BEGINS,
    KEY_NUMBER,
    event_times,
    grouped_keys,
    match_keys,
    timestamps,
    tombstones_arrow,
    verdicts_arrow,
)
from frazil.marts.late import LATE, RECOMPUTE, SUPERSEDED, verdict_sql
from frazil.marts.layout import EVENT_TIME
from frazil.older_spark import to_arrow
from frazil.runner.batch.driver_batch import spark_frame
from frazil.spec import Current, History
from frazil.spec.sql.names import quote
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.apply.mart_batch import MartBatch

    Collect: TypeAlias = Callable[[DataFrame], pa.Table]

_IS_DELETED, _IS_CURRENT = "is_deleted", "is_current"
_VERSION = ("valid_from", _IS_DELETED)


def find_tombstones(batch: MartBatch, changes: pa.Table, collect: Collect) -> pa.Table | None:
    """Return the newest delete of each of the batch's keys in earlier batches.

    Args:
        batch: the batch and the mart.
        changes: its changes.
        collect: collects a DataFrame, for what the driver cannot look up.

    Returns:
        One row per deleted key; None if no change can be late.
    """
    if not batch.compares:
        return None
    spec, first = batch.spec, batch.spec.order_columns[0]
    wanted = [*dict.fromkeys([r.BATCH, *spec.order_columns, *spec.event_times, r.SOURCE_TIME])]
    # File bounds of a column with NaN, the greatest number, differ between Arrow and Spark.
    has_bounds = (
        bool(spec.sequence_by) and batch.by_order and not pa.types.is_floating(changes.schema.field(first).type)
    )
    least = pc.min(changes[first]) if has_bounds else None
    if least is not None and not least.is_valid:
        least = None
    bounds = {} if least is None else {first: least}
    if bounds and spec.times_follow_order:
        bounds[r.SOURCE_TIME] = pc.min(timestamps(changes[first]))
    deletes = batch.changes.find_deletes(changes.select([*spec.keys]), wanted, bounds)
    if isinstance(deletes, NeedsSpark):
        batch.by_spark.append(deletes.reason)
        return collect(batch.tombstones())
    is_own = pc.and_(
        pc.greater(deletes[r.BATCH], batch.changes.after), pc.less_equal(deletes[r.BATCH], batch.changes.upto)
    )
    return tombstones_arrow(deletes.filter(pc.invert(is_own)), spec)


def with_verdicts(batch: MartBatch, changes: pa.Table, keys: pa.Table, found: TargetRows, dead: pa.Table) -> pa.Table:
    """Compare keys change by change if they do not begin after the mart's rows and tombstones.

    Args:
        batch: the batch.
        changes: its changes.
        keys: folded keys, with verdicts as if no change was late.
        found: the mart's rows.
        dead: from :func:`find_tombstones`.
    """
    names, first, is_sure = batch.spec.keys, batch.spec.order_columns[0], _are_timely(batch, changes, keys)
    held = found.newer
    is_known = pa.repeat(False, keys.num_rows)
    for rows, end in ((held, held[first]), (dead, pc.struct_field(dead[late.HELD], first))):
        at = match_keys(keys, rows, names)
        is_known = pc.or_(is_known, pc.is_valid(at))
        # A column of the mart may have a wider type than the batch's. NULL and NaN are never greater.
        is_after = pc.greater(keys[BEGINS].cast(end.type), end.take(at))
        is_sure = pc.and_(is_sure, pc.or_(pc.is_null(at), pc.fill_null(is_after, fill_value=False)))
    if isinstance(batch.mart, History) and batch.spec.times_follow_order:
        # A delete may end a version later than its order implies.
        at = match_keys(keys, dead, names)
        is_after = pc.greater(timestamps(keys[BEGINS]), dead[late.HELD_TIME].take(at))
        is_sure = pc.and_(is_sure, pc.or_(pc.is_null(at), pc.fill_null(is_after, fill_value=False)))
    doubtful = keys.filter(pc.and_not(is_known, is_sure)).select([*names])
    if not doubtful.num_rows:
        return keys
    verdicts = found.needs_spark or _verdicts_on_driver(batch, changes, doubtful, found, dead)
    if isinstance(verdicts, NeedsSpark):
        batch.by_spark.append(verdicts.reason)
        some, deletes = (
            spark_frame(batch.changes.spark, table.filter(pc.is_valid(match_keys(table, doubtful, names))))
            for table in (doubtful, dead)
        )
        new, rows = late.filter_keys(batch.new, some, names), late.held_order(batch.newer_rows(some), batch.spec)
        verdicts = _verdicts(batch, late.with_prior_order(new, rows, deletes, batch.spec))
    return _replaced(batch, keys, verdicts)


def _are_timely(batch: MartBatch, changes: pa.Table, keys: pa.Table) -> pa.ChunkedArray | pa.Array:
    """Return for each key whether all its event times are after those of earlier batches, for marts that need it."""
    if batch.by_order:
        return pa.repeat(True, keys.num_rows)
    before = batch.stats.before.time
    if before is None:
        return pa.repeat(False, keys.num_rows)
    times = event_times(changes, batch.spec)
    is_after = pc.fill_null(pc.greater(times, pa.scalar(before, pa.int64()).cast(times.type)), fill_value=False)
    numbers = match_keys(grouped_keys(changes, batch.spec), keys, batch.spec.keys)
    untimely = pc.unique(numbers.filter(pc.invert(is_after)))
    return pc.invert(pc.is_in(pa.array(range(keys.num_rows), pa.int64()), value_set=untimely))


def _verdicts_on_driver(
    batch: MartBatch, changes: pa.Table, doubtful: pa.Table, found: TargetRows, dead: pa.Table
) -> pa.Table | NeedsSpark:
    """Decide the changes of some keys by the full order."""
    spec, names, order = batch.spec, batch.spec.keys, [*batch.spec.order_columns]
    is_current = isinstance(batch.mart, Current)
    rows = batch.target.find(doubtful, order) if is_current else found.rows
    if isinstance(rows, NeedsSpark):
        return rows
    numbers = match_keys(grouped_keys(changes, spec), doubtful, names)
    some = changes.filter(pc.is_valid(numbers))
    some = some.append_column(EVENT_TIME, event_times(some, spec))
    # Only a history compares event times.
    times = pa.nulls(rows.num_rows, some[EVENT_TIME].type) if is_current else event_times(rows, spec)
    tombstone_ends = {name: pc.struct_field(dead[late.HELD], name) for name in order} | {
        EVENT_TIME: dead[late.HELD_TIME]
    }
    ends = ((rows, rows.select(order).append_column(EVENT_TIME, times)), (dead, pa.table(tombstone_ends)))
    held = [end.take(match_keys(grouped_keys(some, spec), table, names)) for table, end in ends]
    newest_time = batch.stats.before.time
    judged = verdicts_arrow(some, pc.drop_null(numbers), held, batch.mart, spec, newest_time=newest_time)
    if isinstance(judged, NeedsSpark):
        return judged
    verdicts = doubtful.take(judged[KEY_NUMBER])
    for name in (LATE, RECOMPUTE, SUPERSEDED):
        verdicts = verdicts.append_column(name, judged[name])
    return verdicts


def _verdicts(batch: MartBatch, changes: DataFrame) -> pa.Table:
    """Decide changes that are joined with prior order, with Spark."""
    newest_time = batch.stats.before.time
    aggregates = map(F.expr, verdict_sql(batch.mart, batch.spec, compares=True, newest_time=newest_time))
    return to_arrow(changes.groupBy(*map(quote, batch.spec.keys)).agg(*aggregates))


def _replaced(batch: MartBatch, keys: pa.Table, verdicts: pa.Table) -> pa.Table:
    """Return the keys with some verdicts replaced."""
    at = match_keys(keys, verdicts, batch.spec.keys)
    for name in (LATE, RECOMPUTE, SUPERSEDED):
        column = pc.coalesce(verdicts[name].take(at), keys[name])
        keys = keys.set_column(keys.schema.get_field_index(name), name, column)
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRows:
    """Rows of the mart for a batch's keys: the keys, ``_cdc_lived``, file, position and the requested columns.

    Attributes:
        rows: all rows that may be the newest of their key.
        newer: the rows that may make a change late, with the first order column.
        needs_spark: why Spark found the rows; None if the driver did, and rows of a history then have all columns.
    """

    rows: pa.Table
    newer: pa.Table
    needs_spark: NeedsSpark | None = None


def find_target(batch: MartBatch, changes: pa.Table, lacking: Sequence[str], collect: Collect) -> TargetRows:
    """Find the mart's rows for the batch's keys; only the values that changes lack are read.

    If changes may be late, the rows include the first order column. Most keys begin after its value in the mart; the
    other order columns are read later, for the other keys only.

    Args:
        batch: the batch and the mart.
        changes: its changes.
        lacking: columns that some changes lack.
        collect: collects a DataFrame if Spark must find the rows.
    """
    names = batch.spec.keys
    first = [name for name in batch.spec.order_columns[:1] if batch.compares and name not in names]
    found = _by_driver(batch, changes, [*lacking, *first])
    if not isinstance(found, NeedsSpark):
        return TargetRows(rows=found, newer=found)
    batch.by_spark.append(found.reason)
    rows = collect(_by_spark(batch, [*lacking, *(first if batch.has_order else ())]))
    newer = rows
    if batch.compares and not batch.has_order:
        newer = collect(batch.newer_rows(batch.keys).select(*map(quote, [*names, *first])))
    return TargetRows(rows=rows, newer=newer, needs_spark=found)


def _by_spark(batch: MartBatch, wanted: Sequence[str]) -> DataFrame:
    """Return the mart's rows for the batch's keys with some columns, found by Spark."""
    return batch.target_rows.select(*map(quote, (*batch.spec.keys, late.LIVED, AT_FILE, AT_POS, *wanted)))


def _by_driver(batch: MartBatch, changes: pa.Table, wanted: Sequence[str]) -> pa.Table | NeedsSpark:
    """Return the same rows, found by the driver."""
    find, mart, spec = batch.target.find, batch.mart, batch.spec
    keys = changes.select([*spec.keys])
    if isinstance(mart, History):
        values = [name for name in spec.columns if name not in spec.keys]
        rows = find(keys, [*values, *_VERSION, r.POSITION, r.ROW], _IS_CURRENT)
    else:
        rows = find(keys, [*wanted, *([_IS_DELETED] if mart.deletes == "soft" else [])])
    if isinstance(rows, NeedsSpark):
        return rows
    has_flag = _IS_DELETED in rows.column_names
    lived = pc.invert(rows[_IS_DELETED]) if has_flag else pa.repeat(True, rows.num_rows)
    return rows.append_column(late.LIVED, lived)
