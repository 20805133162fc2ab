"""What a batch leaves in a mart, before it is published: for the rules that whole marts keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.catalog.trouble import translate_error
from frazil.iceberg.damage import DamagedTableError
from frazil.marts.all_rows import all_rows, multi_change_keys, single_change_rows
from frazil.marts.counts import compared, late_changes, living, living_rows
from frazil.marts.late import filter_keys
from frazil.marts.table_rules import LeftRows
from frazil.runner.batch.driver_batch import spark_frame
from frazil.spec import History

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from frazil.lake.commit import TableTransaction
    from frazil.marts.fold_spec import FoldSpec
    from frazil.plan.policy import Policy
    from frazil.runner.apply.delta import DeltaCounts, PositionDelta
    from frazil.runner.apply.mart_batch import BatchChanges, MartBatch
    from frazil.spec import Current

_FLAGS = ("is_current", "is_deleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a batch leaves in a mart.

    Attributes:
        rows: the living rows.
        before: the living rows that the mart has until the batch is published; None where it has none, or is rebuilt.
        gained: how many more it has then, where there are some before.
    """

    rows: LeftRows
    before: DataFrame | None = None
    gained: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftInMemory:
    """What a row delta will leave, of which nothing is written yet, as far as it is in the driver's memory.

    Attributes:
        new: living rows that the batch writes: the keys, the columns that rules name, ``_cdc_position`` and
            ``_cdc_row``.
        replaced: keys of the rows of the mart that go.
        keys: columns that name a row.
        columns: those of the contract.
        gained: how many living rows more the mart has then.
    """

    new: pa.Table
    replaced: pa.Table
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    gained: int


def left_in_memory(batch: MartBatch, delta: PositionDelta, columns: Collection[str]) -> LeftInMemory:
    """Return what a row delta will leave; ``columns`` are those that rules name."""
    spec, rows = batch.spec, delta.rows
    for name in _FLAGS:
        if name in rows.column_names and name not in spec.columns:
            flag = pc.fill_null(rows[name], fill_value=name == "is_current")
            rows = rows.filter(flag if name == "is_current" else pc.invert(flag))
    return LeftInMemory(
        new=rows.select([*dict.fromkeys([*spec.keys, *columns, r.POSITION, r.ROW])]),
        replaced=delta.keys,
        keys=spec.keys,
        columns=spec.columns,
        gained=delta.counts.inserted - delta.counts.deleted,
    )


def left_by_delta(batch: MartBatch, delta: PositionDelta, columns: Collection[str]) -> Left:
    """Return what a row delta will leave, of which nothing is written yet; ``columns`` are those that rules name."""
    spec, counts = batch.spec, delta.counts
    flags = [name for name in _FLAGS if name in delta.rows.column_names]
    wanted = dict.fromkeys([*spec.keys, *columns, *flags, r.POSITION, r.ROW])
    spark = batch.changes.spark
    new = living_rows(spark_frame(spark, delta.rows.select([*wanted])), spec.columns)
    before = living_rows(batch.target.table, spec.columns)
    replaced = spark_frame(spark, delta.keys)
    rows = LeftRows(new=new, all=before, keys=spec.keys, replaced=replaced)
    return Left(rows=rows, before=before, gained=counts.inserted - counts.deleted)


def left_on_branch(
    transaction: TableTransaction, spec: FoldSpec, before: DataFrame, counts: DeltaCounts, *, is_appended: bool
) -> Left:
    """Return what was written to a branch: all that it has, and of it what the last write appended, or all of it."""
    rows = living_rows(transaction.written(), spec.columns)
    new = living_rows(transaction.appended(), spec.columns) if is_appended else rows
    before, gained = living_rows(before, spec.columns), counts.inserted - counts.deleted
    return Left(rows=LeftRows(new=new, all=rows, keys=spec.keys), before=before, gained=gained)


def left_whole(rows: DataFrame, spec: FoldSpec, before: DataFrame | None, counts: WholeCounts | None) -> Left:
    """Return what is left of a mart that is written whole; ``before`` and ``counts`` where a batch does that."""
    living = living_rows(rows, spec.columns)
    whole = LeftRows(new=living, all=living, keys=spec.keys)
    if before is None or counts is None:
        return Left(rows=whole)
    return Left(rows=whole, before=living_rows(before, spec.columns), gained=counts.inserted - counts.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCounts:
    """What became of the keys of a mart that was written whole, as ``MartReport`` defines it."""

    inserted: int
    updated: int = 0
    deleted: int = 0


def whole_rows(mart: Current | History, changes: BatchChanges, spec: FoldSpec, policy: Policy) -> DataFrame:
    """Return all rows of a mart; only keys with more than one change are folded, unless they are many.

    A full load has one record a key: its rows go straight through and keep the order of their files.
    """
    rows, cache = changes.all(spec), changes.cache
    keys = cache.keep(("multi_change_keys", changes.upto, spec.fills), lambda: multi_change_keys(rows, spec))
    times = changes.known_times() if isinstance(mart, History) and mart.bitemporal else None
    if keys.count() > policy.broadcast_changes:
        return all_rows(mart, rows, spec, times)
    if keys.isEmpty():
        return single_change_rows(mart, rows, spec, times)
    single, others = (filter_keys(rows, keys, spec.keys, among=among) for among in (False, True))
    return single_change_rows(mart, single, spec, times).unionByName(all_rows(mart, others, spec, times))


def count_whole(before: DataFrame | None, after: DataFrame, spec: FoldSpec) -> WholeCounts:
    """Count what became of the keys of a mart.

    Where its keys were others before, or what it was cannot be read any more, all of them came.

    Args:
        before: its rows as they were; None where there were none.
        after: its rows as they are.
        spec: the table's parts.

    Cost: of a first load a count of its living rows; else a shuffle of the keys of all living rows, before and after.
    """
    living_after = living(after, spec)
    if before is None or not {*spec.keys, *spec.order_columns} <= {*before.columns}:
        return WholeCounts(inserted=living_after.count())
    try:
        [counts] = compared(living(before, spec), living_after, spec).collect()
    except Exception as error:
        if not isinstance(translate_error(error), DamagedTableError):
            raise
        # A lost file is no reason not to write the mart again: that is its cure.
        return WholeCounts(inserted=living_after.count())
    return WholeCounts(inserted=counts.inserted, updated=counts.updated, deleted=counts.deleted)


def count_late(changes: BatchChanges, spec: FoldSpec, *, after: int) -> int:
    """Count the changes after a batch that are late.

    Cost: a shuffle of all changes, once for all marts of the table.
    """
    rows, name = changes.all(spec), ("late", after, changes.upto)
    [[late]] = changes.cache.keep(name, lambda: late_changes(rows, spec, after=after)).collect()
    return int(late)
