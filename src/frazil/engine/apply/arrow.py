"""The delta of one mart, computed on the driver by Arrow: for small batches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from frazil.bronze import record as r
from frazil.engine.apply.delta import DeltaCounts, PositionDelta
from frazil.engine.driver_batch import spark_frame
from frazil.lake.row_delta import FILE_PATH, LIVING, POS
from frazil.lake.row_lookup import AT_FILE, AT_POS
from frazil.marts import late
from frazil.marts.arrow_fill import fill_arrow, lacking_columns
from frazil.marts.arrow_fold import BEGINS, INCOMPLETE, event_times, grouped_keys, newest_arrow
from frazil.marts.arrow_history import next_versions_arrow
from frazil.marts.current import FLAGS, STANDS, last_known
from frazil.marts.fold_spec import EVENT_TIME
from frazil.marts.history import next_versions
from frazil.marts.verdict import DELETE_ONLY, IS_LIVE, KINDS, LATE, RECOMPUTE, SUPERSEDED, verdict_sql
from frazil.older_spark import to_arrow
from frazil.spec import Current, History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.engine.apply.mart_batch import MartBatch

_JOB_GROUP = "spark.jobGroup.id"
_KEYS, _AT = "_cdc_keys", "_cdc_at"
_IS_DELETED, _IS_CURRENT = "is_deleted", "is_current"
_VERSION = ("valid_from", _IS_DELETED)


def arrow_delta(batch: MartBatch) -> PositionDelta | None:
    """Return what a batch changes in a mart.

    None where a key must be recomputed, which may have any number of rows, as all must in a bitemporal history, or
    where changes of a key differ in nothing but their content.

    Cost: one look at the mart, which brings the values that changes lack too; where changes may be late one at the
    tombstones, and a fold of those keys that may have such changes; for history a fold of all changes, for deletes
    without values a look for those. What it brings is as large as the batch.
    """
    if isinstance(batch.mart, History) and batch.mart.bitemporal:
        return None
    folded = _fold(batch)
    if folded is None:
        return None
    keys = folded.keys
    kinds = keys.group_by([*KINDS]).aggregate([([], "count_all"), (LATE, "sum")])
    counts = DeltaCounts.of(kinds.rename_columns([*KINDS, _KEYS, LATE]), _KEYS)
    if counts.recompute:
        return None
    changes: pa.Table | None = None
    if folded.lacking:
        filled = _filled(batch, folded)
        if filled is None:
            return None
        keys, changes = filled
    gone = keys.filter(pc.and_not(keys[late.IN_TARGET], keys[SUPERSEDED]))
    # Of a key that is not recomputed only the newest version goes.
    positions = {FILE_PATH: gone[AT_FILE], POS: gone[AT_POS], LIVING: pa.repeat(True, gone.num_rows)}
    rows = _versions(batch, folded, changes) if isinstance(batch.mart, History) else _states(batch, keys, counts)
    replaced = gone.select([*batch.spec.keys])
    return PositionDelta(counts=counts, rows=rows, positions=pa.table(positions), keys=replaced)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folded:
    """A batch in memory, folded.

    Attributes:
        changes: the batch.
        keys: one row per key, with its verdicts and the position of the mart's row.
        lacking: columns that some upserts do not carry.
        found: the mart's rows of these keys, with ``lacking``; those of a history that the driver found by itself with
            all columns.
        by_driver: whether it did.
    """

    changes: pa.Table
    keys: pa.Table
    lacking: list[str]
    found: pa.Table
    by_driver: bool


def _fold(batch: MartBatch) -> _Folded | None:
    """Fold the batch; None where Spark must."""
    spec, changes = batch.spec, batch.changes.in_memory(batch.spec)
    lacking = lacking_columns(changes, spec)
    wanted, sides = _prior_rows(batch, lacking)
    spark = batch.changes.spark.sparkContext
    group = spark.getLocalProperty(_JOB_GROUP)

    def collect(rows: DataFrame) -> pa.Table:
        spark.setLocalProperty(_JOB_GROUP, group or "")  # so that its jobs count as this table's
        return to_arrow(rows)

    def look() -> tuple[pa.Table, bool]:
        found = _found(batch, changes, wanted)
        return (collect(_target(batch, wanted)), False) if found is None else (found, True)

    with ThreadPoolExecutor(1 + len(sides)) as pool:
        finding = pool.submit(look)
        collecting = [pool.submit(collect, rows) for rows in sides]
        keys = _folded(batch, changes)
    if keys is None:
        return None
    (found, by_driver), prior = finding.result(), [collected.result() for collected in collecting]
    at = _match(keys, found, spec.keys)
    keys = keys.append_column(late.IN_TARGET, pc.is_valid(at))
    keys = keys.append_column(late.LIVED, pc.fill_null(found[late.LIVED].take(at), fill_value=False))
    for name in (AT_FILE, AT_POS):
        keys = keys.append_column(name, found[name].take(at))
    if prior:
        dead, *newer = prior
        keys = _with_late(batch, keys, newer[0] if newer else found, dead)
    elif batch.compares:
        keys = _with_verdicts(batch, keys, batch.with_prior_order(batch.new))
    return _Folded(changes=changes, keys=keys, lacking=lacking, found=found, by_driver=by_driver)


def _prior_rows(batch: MartBatch, lacking: Sequence[str]) -> tuple[list[str], list[DataFrame]]:
    """Return what to collect: columns of the mart; if the order decides, the tombstones, and in large marts newer rows.

    Of the mart's values only those that changes lack are read.
    """
    names, overlaps = batch.spec.keys, batch.compares and batch.by_order
    # By the first order column most keys begin after what the mart has of them; the rest of it is read then.
    first = [name for name in batch.spec.order_columns[:1] if name not in names]
    wanted = [*lacking, *(first if overlaps and batch.has_order else ())]
    sides = [batch.tombstones()] if overlaps else []
    if overlaps and not batch.has_order:
        sides.append(batch.newer_rows(batch.keys).select(*map(quote, [*names, *first])))
    return wanted, sides


def _target(batch: MartBatch, wanted: Sequence[str]) -> DataFrame:
    """Return the mart's rows of the batch's keys, as Spark finds them, with some columns."""
    return batch.target_rows.select(*map(quote, (*batch.spec.keys, late.LIVED, AT_FILE, AT_POS, *wanted)))


def _found(batch: MartBatch, changes: pa.Table, wanted: Sequence[str]) -> pa.Table | None:
    """Return the same, as the driver finds them by itself; None where Spark must."""
    find, mart, spec = batch.target.find, batch.mart, batch.spec
    keys = changes.select([*spec.keys])
    if isinstance(mart, History):
        values = [name for name in spec.columns if name not in spec.keys]
        rows = find(keys, [*values, *_VERSION, r.POSITION, r.ROW], _IS_CURRENT)
    else:
        rows = find(keys, [*wanted, *([_IS_DELETED] if mart.deletes == "soft" else [])])
    if rows is None:
        return None
    has_flag = _IS_DELETED in rows.column_names
    lived = pc.invert(rows[_IS_DELETED]) if has_flag else pa.repeat(True, rows.num_rows)
    return rows.append_column(late.LIVED, lived)


def _folded(batch: MartBatch, changes: pa.Table) -> pa.Table | None:
    """Fold the batch, compared with nothing."""
    keys = newest_arrow(changes, batch.spec)
    if keys is None:
        return None
    stands, dies = keys[IS_LIVE], pc.invert(keys[IS_LIVE])
    if isinstance(batch.mart, Current) and batch.mart.deletes == "soft":
        stands = pc.invert(keys[DELETE_ONLY])
        never = pa.scalar(None, keys.schema.field(EVENT_TIME).type)
        keys = keys.append_column(_IS_DELETED, dies)
        keys = keys.append_column("deleted_at", pc.if_else(dies, keys[EVENT_TIME], never))
    number = keys.num_rows
    return (
        keys.append_column(STANDS, stands)
        .append_column(LATE, pa.repeat(pa.scalar(0, pa.int64()), number))
        .append_column(RECOMPUTE, pa.repeat(False, number))
        .append_column(SUPERSEDED, pa.repeat(False, number))
    )


def _filled(batch: MartBatch, folded: _Folded) -> tuple[pa.Table, pa.Table | None] | None:
    """Fill what changes do not carry with what the mart's row has: the folded keys, and for history all changes.

    None where the mart has other types, or only the content of two changes says which is newer.
    """
    spec, names, keys, held = batch.spec, batch.spec.keys, folded.keys, folded.found
    # A change took effect when it says itself: a time that is filled in is that of an older one.
    changes = folded.changes.append_column(EVENT_TIME, event_times(folded.changes, spec))
    held = held.filter(held[late.LIVED]).select([*names, *folded.lacking])
    if any(held.schema.field(name).type != changes.schema.field(name).type for name in folded.lacking):
        return None
    some = keys.filter(keys[INCOMPLETE]).select([*names])
    numbers = _match(grouped_keys(changes, spec), some, names)
    is_lacking = pc.is_valid(numbers)
    of_keys = held.take(_match(some, held, names))
    filled = fill_arrow(changes.filter(is_lacking), numbers.filter(is_lacking), of_keys, spec)
    newest = newest_arrow(filled, spec)
    if newest is None:
        return None
    at = _match(keys, newest, names)
    for name in folded.lacking:
        column = pc.if_else(pc.is_valid(at), newest[name].take(at), keys[name])
        keys = keys.set_column(keys.schema.get_field_index(name), name, column)
    if isinstance(batch.mart, Current):
        return keys, None
    shown = [*spec.columns, r.CLASS, r.POSITION, r.ROW, EVENT_TIME]
    return keys, pa.concat_tables([changes.filter(pc.invert(is_lacking)).select(shown), filled.select(shown)])


def _with_late(batch: MartBatch, keys: pa.Table, held: pa.Table, dead: pa.Table) -> pa.Table:
    """Compare the keys that do not begin after what the mart and the tombstones have of them, change by change."""
    names, first, is_sure = batch.spec.keys, batch.spec.order_columns[0], pa.repeat(True, keys.num_rows)
    for rows, end in ((held, held[first]), (dead, pc.struct_field(dead[late.HELD], first))):
        at = _match(keys, rows, names)
        # A column of the mart may have a wider type than the batch's. NULL and NaN are never greater.
        is_after = pc.greater(keys[BEGINS].cast(end.type), end.take(at))
        is_sure = pc.and_(is_sure, pc.or_(pc.is_null(at), pc.fill_null(is_after, fill_value=False)))
    doubtful = keys.filter(pc.invert(is_sure)).select([*names])
    if not doubtful.num_rows:
        return keys
    some, deletes = (
        spark_frame(batch.changes.spark, table.filter(pc.is_valid(_match(table, doubtful, names))))
        for table in (doubtful, dead)
    )
    new, rows = late.filter_keys(batch.new, some, names), late.held_order(batch.newer_rows(some), batch.spec)
    return _with_verdicts(batch, keys, late.with_prior_order(new, rows, deletes, batch.spec))


def _with_verdicts(batch: MartBatch, keys: pa.Table, changes: DataFrame) -> pa.Table:
    """Replace the verdicts of keys whose changes were joined with prior order."""
    names = batch.spec.keys
    aggregates = map(F.expr, verdict_sql(batch.mart, batch.spec, compares=True))
    verdicts = to_arrow(changes.groupBy(*map(quote, names)).agg(*aggregates))
    at = _match(keys, verdicts, names)
    for name in (LATE, RECOMPUTE, SUPERSEDED):
        column = pc.coalesce(verdicts[name].take(at), keys[name])
        keys = keys.set_column(keys.schema.get_field_index(name), name, column)
    return keys


def _states(batch: MartBatch, keys: pa.Table, counts: DeltaCounts) -> pa.Table:
    """Return the new rows of a current table."""
    spec = batch.spec
    rows = keys.filter(pc.and_not(keys[STANDS], keys[SUPERSEDED]))
    if isinstance(batch.mart, Current) and batch.mart.deletes == "soft" and counts.deletes_without_values:
        is_dead = pc.and_(pc.and_not(keys[DELETE_ONLY], keys[IS_LIVE]), keys[late.IN_TARGET])
        dead = spark_frame(batch.changes.spark, keys.filter(is_dead).select([*spec.keys, *FLAGS]))
        known = to_arrow(last_known(batch.target.table, dead, spec))
        rows = pa.concat_tables([rows.select(known.column_names), known], promote_options="permissive")
    return rows


def _versions(batch: MartBatch, folded: _Folded, filled: pa.Table | None) -> pa.Table:
    """Return the new rows of a history; ``filled``: the changes, where some did not carry every column."""
    spec, deletes = batch.spec, batch.mart.deletes if isinstance(batch.mart, History) else "close"
    changes = filled
    if changes is None:
        changes = folded.changes.append_column(EVENT_TIME, event_times(folded.changes, spec))
    if folded.by_driver:
        numbers = _match(grouped_keys(changes, spec), folded.keys, spec.keys)
        at = _match(folded.keys, folded.found, spec.keys)
        is_held = pc.is_valid(at)
        held_keys = pa.array(range(len(at)), pa.int64()).filter(is_held.combine_chunks())
        held = folded.found.take(at.filter(is_held))
        rows = next_versions_arrow(changes, numbers, held, held_keys, spec, deletes=deletes)
        if rows is not None:
            return rows
    new = batch.new
    if filled is not None:
        types = StructType([new.schema[name] for name in filled.column_names])
        new = spark_frame(batch.changes.spark, filled, types)
    return to_arrow(next_versions(new, batch.target_rows, spec, deletes, in_one_task=batch.in_one_task))


def _match(keys: pa.Table, others: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """Return the number of the row of ``others`` with the key of each row of ``keys``, NULL where there is none."""
    mine, theirs = (
        rows.select([*names]).append_column(number, pa.array(range(rows.num_rows), pa.int64()))
        for rows, number in ((keys, _KEYS), (others, _AT))
    )
    # A key of the mart may have a wider type than the batch's.
    theirs = theirs.cast(pa.schema([*(mine.schema.field(name) for name in names), theirs.schema.field(_AT)]))
    both = theirs.join(mine, keys=[*names], join_type="inner")
    return both[_AT].take(pc.index_in(mine[_KEYS], value_set=both[_KEYS]))
