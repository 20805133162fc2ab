"""Rows of a mart after a batch, before it is published: for rules over whole marts, and for counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.catalog.trouble import translate_error
from frazil.iceberg.metadata import DamagedTableError
from frazil.marts.all_rows import all_rows, multi_change_keys, single_change_rows
from frazil.marts.counts import compared, late_rows, living, living_rows
from frazil.marts.late import filter_keys
from frazil.marts.table_rules import LeftRows
from frazil.runner.batch.driver_batch import spark_frame
from frazil.spec import History

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from frazil.lake.commit import TableTransaction
    from frazil.marts.layout import FoldSpec
    from frazil.plan.policy import Policy
    from frazil.runner.apply.mart_batch import BatchChanges, DeltaCounts, MartBatch, PositionDelta
    from frazil.spec import Current

_FLAGS = ("is_current", "is_deleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Rows of a mart after a batch.

    Attributes:
        rows: the living rows.
        before: the living rows of the mart before the batch; None for a new or rebuilt mart.
        gained: difference in the number of living rows, if ``before`` is given.
    """

    rows: LeftRows
    before: DataFrame | None = None
    gained: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftInMemory:
    """An unwritten row delta, as far as it is in the driver's memory.

    Attributes:
        new: living rows that the batch adds: the keys, the columns that rules name, ``_cdc_position`` and ``_cdc_row``.
        replaced: keys of the mart's replaced rows.
        keys: key columns.
        columns: columns of the contract.
        gained: difference in the number of living rows.
    """

    new: pa.Table
    replaced: pa.Table
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    gained: int


def left_in_memory(batch: MartBatch, delta: PositionDelta, columns: Collection[str]) -> LeftInMemory:
    """Return the part of a row delta that rules on the driver need.

    Args:
        batch: the batch and the mart.
        delta: its unwritten delta.
        columns: columns that rules name.
    """
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
    """Return the mart's rows after an unwritten row delta.

    Args:
        batch: the batch and the mart.
        delta: its unwritten delta.
        columns: columns that rules name.
    """
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
    """Return the mart's rows after a write to the branch of a transaction.

    Args:
        transaction: the open transaction.
        spec: key, order and value columns of the table.
        before: rows of the mart before the batch.
        counts: counts of the delta.
        is_appended: the last write appended the new rows; if False, all rows count as new.
    """
    rows = living_rows(transaction.written(), spec.columns)
    new = living_rows(transaction.appended(), spec.columns) if is_appended else rows
    before, gained = living_rows(before, spec.columns), counts.inserted - counts.deleted
    return Left(rows=LeftRows(new=new, all=rows, keys=spec.keys), before=before, gained=gained)


def left_whole(rows: DataFrame, spec: FoldSpec, before: DataFrame | None, counts: WholeCounts | None) -> Left:
    """Return the rows of a fully written mart.

    Args:
        rows: all its rows.
        spec: key, order and value columns of the table.
        before: rows before the batch; None for a new or rebuilt mart.
        counts: counts of the batch; None for a new or rebuilt mart.
    """
    living = living_rows(rows, spec.columns)
    whole = LeftRows(new=living, all=living, keys=spec.keys)
    if before is None or counts is None:
        return Left(rows=whole)
    return Left(rows=whole, before=living_rows(before, spec.columns), gained=counts.inserted - counts.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCounts:
    """Inserted, updated and deleted keys after a full write, as ``MartReport`` defines them."""

    inserted: int
    updated: int = 0
    deleted: int = 0


def whole_rows(mart: Current | History, changes: BatchChanges, spec: FoldSpec, policy: Policy) -> DataFrame:
    """Return all rows of a mart; only keys with several changes are folded, unless they are many.

    A full load has one record per key: its rows pass through and keep the order of their files.

    Args:
        mart: declaration of the mart.
        changes: all changes of its table.
        spec: key, order and value columns of the table.
        policy: thresholds.
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
    """Count inserted, updated and deleted keys of a fully written mart.

    All keys count as inserted if the key or order columns were others before, or if the old rows are unreadable.

    Args:
        before: old rows; None for a new mart.
        after: new rows.
        spec: key, order and value columns of the table.

    Cost: a count of living rows for a first load; else a shuffle of the keys of all living rows, old and new.
    """
    living_after = living(after, spec)
    if before is None or not {*spec.keys, *spec.order_columns} <= {*before.columns}:
        return WholeCounts(inserted=living_after.count())
    try:
        [counts] = compared(living(before, spec), living_after, spec).collect()
    except Exception as error:
        if not isinstance(translate_error(error), DamagedTableError):
            raise
        # Rewriting the mart repairs a lost file.
        return WholeCounts(inserted=living_after.count())
    return WholeCounts(inserted=counts.inserted, updated=counts.updated, deleted=counts.deleted)


def count_late(changes: BatchChanges, spec: FoldSpec, *, after: int) -> int:
    """Count the late changes of batches after a given one.

    Args:
        changes: all changes of the table.
        spec: key, order and value columns of the table.
        after: batch before the counted ones.

    Cost: a shuffle of all changes, once for all marts of the table.
    """
    rows, name = changes.all(spec), ("late", after, changes.upto)
    [[late]] = changes.cache.keep(name, lambda: late_rows(rows, spec, after=after)).collect()
    return int(late)
