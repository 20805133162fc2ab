"""Compute the delta of one mart on the driver with Arrow, for small batches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from frazil.bronze import record as r
from frazil.lake.file_writer import FILE_PATH, LIVING, POS
from frazil.lake.row_lookup import AT_FILE, AT_POS
from frazil.marts import late
from frazil.marts.arrow.fold import (
    INCOMPLETE,
    event_times,
    fill_arrow,
    grouped_keys,
    has_ties,
    lacking_columns,
    match_keys,
    newest_arrow,
    times_of_deletes,
)
from frazil.marts.arrow.history import next_versions_arrow
from frazil.marts.fold import FLAGS, STANDS, TIMES, last_known
from frazil.marts.history import next_versions
from frazil.marts.late import DELETE_ONLY, IS_LIVE, KINDS, LATE, RECOMPUTE, SUPERSEDED
from frazil.marts.layout import EVENT_TIME
from frazil.older_spark import to_arrow
from frazil.runner.apply.arrow_verdicts import find_target, find_tombstones, with_verdicts
from frazil.runner.apply.mart_batch import DeltaCounts, PositionDelta
from frazil.runner.batch.driver_batch import spark_frame
from frazil.spec import Current, History
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.layout import FoldSpec
    from frazil.runner.apply.arrow_verdicts import TargetRows
    from frazil.runner.apply.mart_batch import MartBatch

_JOB_GROUP = "spark.jobGroup.id"
_KEYS = "_cdc_keys"


def arrow_delta(batch: MartBatch) -> PositionDelta | NeedsSpark:
    """Return the changes of a batch to a mart that is not bitemporal.

    Returns:
        The delta. Spark is needed if two changes of a key differ only by content, or if a key to recompute has many
        changes or changes that lack columns.

    Cost: one lookup in the mart, including the values that changes lack (all values for a history). Possible late
    changes add a lookup of tombstones and of the order of their keys; deletes without values add a lookup of these
    values. The fetched rows are about as large as the batch, plus all changes of recomputed keys.
    """
    folded = _fold(batch)
    if isinstance(folded, NeedsSpark):
        return folded
    keys = folded.keys
    kinds = keys.group_by([*KINDS]).aggregate([([], "count_all"), (LATE, "sum")])
    counts = DeltaCounts.of(kinds.rename_columns([*KINDS, _KEYS, LATE]), _KEYS)
    again = keys.filter(keys[RECOMPUTE])
    whole = whole_keys(batch, again) if again.num_rows else None
    if isinstance(whole, NeedsSpark):
        return whole
    changes: pa.Table | None = None
    if folded.lacking:
        filled = _filled(batch, folded)
        if isinstance(filled, NeedsSpark):
            return filled
        keys, changes = filled
    gone = keys.filter(pc.and_not(pc.and_not(keys[late.IN_TARGET], keys[SUPERSEDED]), keys[RECOMPUTE]))
    # A key that is not recomputed loses only its newest version.
    positions, replaced = places(gone, pa.repeat(True, gone.num_rows)), gone.select([*batch.spec.keys])
    if whole is not None:
        positions = pa.concat_tables([positions, whole.places])
        replaced = pa.concat_tables([replaced, again.select([*batch.spec.keys])])
    if isinstance(batch.mart, History):
        rows = _versions(batch, folded, changes, whole)
    else:
        rows = _states(batch, keys, counts, whole)
    if isinstance(rows, NeedsSpark):
        return rows
    return PositionDelta(counts=counts, rows=rows, positions=positions, keys=replaced)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folded:
    """A folded batch in memory.

    Attributes:
        changes: the batch.
        keys: one row per key, with its verdicts and the position of the mart's row.
        lacking: columns that some upserts lack.
        found: the mart's rows of these keys, with ``lacking``.
    """

    changes: pa.Table
    keys: pa.Table
    lacking: list[str]
    found: TargetRows


def _fold(batch: MartBatch) -> _Folded | NeedsSpark:
    """Fold the batch."""
    spec, changes = batch.spec, batch.changes.in_memory(batch.spec)
    lacking = lacking_columns(changes, spec)
    spark = batch.changes.spark.sparkContext
    group = spark.getLocalProperty(_JOB_GROUP)

    def collect(rows: DataFrame) -> pa.Table:
        spark.setLocalProperty(_JOB_GROUP, group or "")  # so that its jobs count as this table's
        return to_arrow(rows)

    with ThreadPoolExecutor(2) as pool:
        finding = pool.submit(find_target, batch, changes, lacking, collect)
        burying = pool.submit(find_tombstones, batch, changes, collect)
        keys = _folded(batch, changes)
    if isinstance(keys, NeedsSpark):
        return keys
    found, dead = finding.result(), burying.result()
    at = match_keys(keys, found.rows, spec.keys)
    keys = keys.append_column(late.IN_TARGET, pc.is_valid(at))
    keys = keys.append_column(late.LIVED, pc.fill_null(found.rows[late.LIVED].take(at), fill_value=False))
    for name in (AT_FILE, AT_POS):
        keys = keys.append_column(name, found.rows[name].take(at))
    if dead is not None:
        keys = with_verdicts(batch, changes, keys, found, dead)
    return _Folded(changes=changes, keys=keys, lacking=lacking, found=found)


def _folded(batch: MartBatch, changes: pa.Table) -> pa.Table | NeedsSpark:
    """Fold the batch without comparing it with earlier changes."""
    keys = newest_arrow(changes, batch.spec)
    if isinstance(keys, NeedsSpark):
        return keys
    stands, dies = keys[IS_LIVE], pc.invert(keys[IS_LIVE])
    if isinstance(batch.mart, Current) and batch.mart.deletes == "soft":
        stands = pc.invert(keys[DELETE_ONLY])
        keys = keys.append_column("is_deleted", dies)
    number = keys.num_rows
    return (
        keys.append_column(STANDS, stands)
        .append_column(LATE, pa.repeat(pa.scalar(0, pa.int64()), number))
        .append_column(RECOMPUTE, pa.repeat(False, number))
        .append_column(SUPERSEDED, pa.repeat(False, number))
    )


def _filled(batch: MartBatch, folded: _Folded) -> tuple[pa.Table, pa.Table | None] | NeedsSpark:
    """Fill missing values from the mart's row: in the folded keys, and for a history in all changes.

    Spark is needed if the mart has other types, or if only the content of two changes decides which is newer.
    """
    spec, names, keys, held = batch.spec, batch.spec.keys, folded.keys, folded.found.rows
    # A change takes effect at its own time; a filled-in time belongs to an older change.
    changes = folded.changes.append_column(EVENT_TIME, event_times(folded.changes, spec))
    held = held.filter(held[late.LIVED]).select([*names, *folded.lacking])
    if any(held.schema.field(name).type != changes.schema.field(name).type for name in folded.lacking):
        return NeedsSpark("type")
    some = keys.filter(keys[INCOMPLETE]).select([*names])
    numbers = match_keys(grouped_keys(changes, spec), some, names)
    is_lacking = pc.is_valid(numbers)
    of_keys = held.take(match_keys(some, held, names))
    filled = fill_arrow(changes.filter(is_lacking), numbers.filter(is_lacking), of_keys, spec)
    newest = newest_arrow(filled, spec)
    if isinstance(newest, NeedsSpark):
        return newest
    at = match_keys(keys, newest, names)
    for name in folded.lacking:
        column = pc.if_else(pc.is_valid(at), newest[name].take(at), keys[name])
        keys = keys.set_column(keys.schema.get_field_index(name), name, column)
    if isinstance(batch.mart, Current):
        return keys, None
    shown = [*spec.columns, r.CLASS, r.POSITION, r.ROW, *TIMES]
    return keys, pa.concat_tables([changes.filter(pc.invert(is_lacking)).select(shown), filled.select(shown)])


def _states(batch: MartBatch, keys: pa.Table, counts: DeltaCounts, whole: WholeKeys | None) -> pa.Table | NeedsSpark:
    """Return the new rows of a current table; ``whole`` has the recomputed keys."""
    spec, is_soft = batch.spec, isinstance(batch.mart, Current) and batch.mart.deletes == "soft"
    shown = [*spec.columns, *(FLAGS if is_soft else (r.POSITION, r.ROW))]
    keys = _with_deleted_at(keys.filter(pc.invert(keys[RECOMPUTE])), batch)
    rows = keys.filter(pc.and_not(keys[STANDS], keys[SUPERSEDED])).select(shown)
    if is_soft and counts.deletes_without_values:
        is_dead = pc.and_(pc.and_not(keys[DELETE_ONLY], keys[IS_LIVE]), keys[late.IN_TARGET])
        known = _last_known(batch, keys.filter(is_dead).select([*spec.keys, *FLAGS, *TIMES]))
        rows = pa.concat_tables([rows, known.select(shown)], promote_options="permissive")
    if whole is None:
        return rows
    recomputed = _folded(batch, whole.changes)
    if isinstance(recomputed, NeedsSpark):
        return recomputed
    recomputed = _with_deleted_at(recomputed.filter(recomputed[STANDS]), batch).select(shown)
    return pa.concat_tables([rows, recomputed], promote_options="permissive")


def _with_deleted_at(keys: pa.Table, batch: MartBatch) -> pa.Table:
    """Add the time of deletion to folded keys of a soft-delete table, from their own values."""
    if isinstance(batch.mart, History) or batch.mart.deletes != "soft":
        return keys
    times = times_of_deletes(keys, event_times(keys, batch.spec))
    return keys.append_column("deleted_at", pc.if_else(keys["is_deleted"], times, pa.scalar(None, times.type)))


def _last_known(batch: MartBatch, dead: pa.Table) -> pa.Table:
    """Return the rows of a soft-delete table for keys whose delete came without values.

    ``dead`` has these keys, with flags and times.
    """
    spec = batch.spec
    values = [name for name in spec.columns if name not in spec.keys]
    found = batch.target.find(dead.select([*spec.keys]), values)
    if isinstance(found, NeedsSpark):
        batch.by_spark.append(found.reason)
        return to_arrow(last_known(batch.target.table, spark_frame(batch.changes.spark, dead), spec))
    flags = dead.select([*FLAGS, *TIMES]).take(match_keys(found, dead, spec.keys))
    at = times_of_deletes(flags, event_times(found, spec))
    flags = flags.set_column(flags.schema.get_field_index("deleted_at"), "deleted_at", at)
    return pa.table({name: found[name] for name in spec.columns} | {name: flags[name] for name in FLAGS})


def _versions(
    batch: MartBatch, folded: _Folded, filled: pa.Table | None, whole: WholeKeys | None
) -> pa.Table | NeedsSpark:
    """Return the new rows of a history.

    Args:
        batch: the batch.
        folded: the folded batch.
        filled: its changes with filled values, if some lack columns.
        whole: recomputed keys.
    """
    spec, deletes = batch.spec, batch.mart.deletes if isinstance(batch.mart, History) else "close"
    keys, changes = folded.keys, filled
    if changes is None:
        changes = folded.changes.append_column(EVENT_TIME, event_times(folded.changes, spec))
    if whole is not None:
        changes = whole.among(changes, keys, spec)
    why = folded.found.needs_spark
    if why is None:
        numbers = match_keys(grouped_keys(changes, spec), keys, spec.keys)
        at = match_keys(keys, folded.found.rows, spec.keys)
        is_held = pc.and_not(pc.is_valid(at), keys[RECOMPUTE])
        held_keys = pa.array(range(len(at)), pa.int64()).filter(is_held.combine_chunks())
        held = folded.found.rows.take(at.filter(is_held))
        rows = next_versions_arrow(changes, numbers, held, held_keys, spec, deletes=deletes)
        if not isinstance(rows, NeedsSpark):
            return rows
        why = rows
    if whole is not None:
        return why
    batch.by_spark.append(why.reason)
    new = batch.new
    if filled is not None:
        types = StructType([new.schema[name] for name in filled.column_names])
        new = spark_frame(batch.changes.spark, filled, types)
    return to_arrow(next_versions(new, batch.target_rows, spec, deletes, in_one_task=batch.in_one_task))


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeKeys:
    """Keys of a batch with all their changes and mart rows.

    Attributes:
        changes: all their changes, including the batch's, in the shape of silver, each with every column.
        places: positions of their rows in the mart, as :mod:`frazil.lake.commit` takes them.
    """

    changes: pa.Table
    places: pa.Table

    def among(self, changes: pa.Table, keys: pa.Table, spec: FoldSpec) -> pa.Table:
        """Return the changes of a batch, for these keys replaced by all their changes, with event time.

        Args:
            changes: changes of the batch, with event time.
            keys: folded keys, with verdicts.
            spec: key, order and value columns of the table.
        """
        is_whole = keys[RECOMPUTE].take(match_keys(grouped_keys(changes, spec), keys, spec.keys))
        every = self.changes.append_column(EVENT_TIME, event_times(self.changes, spec))
        return pa.concat_tables([changes.filter(pc.invert(is_whole)).select(every.column_names), every])


def whole_keys(batch: MartBatch, keys: pa.Table) -> WholeKeys | NeedsSpark:
    """Find all changes and all mart rows of some folded keys.

    Returns:
        The keys. Spark is needed if some upserts of the table lack columns, there are too many changes, or their types
        differ from the batch's.

    Cost: a lookup of the keys in silver, and for a history one in the mart.
    """
    spec, shape = batch.spec, batch.changes.in_memory(batch.spec).schema
    some = keys.select([*spec.keys])
    changes = _all_changes(batch, some, shape)
    if isinstance(changes, NeedsSpark):
        return changes
    lacking = lacking_columns(changes, spec)
    if lacking:  # they are of a time when the table had fewer
        if {*lacking} & {*spec.event_times}:
            return NeedsSpark("partial")
        nothing = pa.table({name: pa.nulls(some.num_rows, shape.field(name).type) for name in lacking})
        changes = fill_arrow(changes, match_keys(grouped_keys(changes, spec), keys, spec.keys), nothing, spec)
    if isinstance(batch.mart, History):
        rows = batch.target.find(some, [LIVING])
        if isinstance(rows, NeedsSpark):
            return rows
    else:
        rows = keys.filter(keys[late.IN_TARGET])
        rows = rows.append_column(LIVING, pa.repeat(True, rows.num_rows))
    return WholeKeys(changes=changes, places=places(rows, rows[LIVING]))


def _all_changes(batch: MartBatch, keys: pa.Table, shape: pa.Schema) -> pa.Table | NeedsSpark:
    """Find all changes of some keys, in the shape of the batch's."""
    spec = batch.spec
    if spec.partial:
        return NeedsSpark("partial")
    names = [*dict.fromkeys((*spec.keys, *spec.columns, r.CLASS, r.POSITION, r.ROW, r.BATCH, r.SOURCE_TIME))]
    changes = batch.changes.find_all(keys, [name for name in names if name not in spec.keys])
    if isinstance(changes, NeedsSpark):
        return changes
    if any(changes.schema.field(name).type != shape.field(name).type for name in names):
        return NeedsSpark("type")
    if has_ties(changes, spec):
        return NeedsSpark("ties")
    return changes.select(names).append_column(r.KNOWN, pa.nulls(changes.num_rows, shape.field(r.KNOWN).type))


def places(rows: pa.Table, living: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return file and position of rows found in a mart; ``living`` says for each row whether it is current."""
    return pa.table({FILE_PATH: rows[AT_FILE], POS: rows[AT_POS], LIVING: living})
