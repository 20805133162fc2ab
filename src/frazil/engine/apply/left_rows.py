"""What a batch leaves in a mart, before it is published: for the rules that whole marts keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.engine.driver_batch import spark_frame
from frazil.marts.counts import living_rows
from frazil.marts.table_rules import LeftRows

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

    from frazil.engine.apply.delta import DeltaCounts, PositionDelta
    from frazil.engine.apply.mart_batch import MartBatch
    from frazil.engine.apply.whole import WholeCounts
    from frazil.lake.commit import TableTransaction
    from frazil.marts.fold_spec import FoldSpec

_FLAGS = ("is_current", "is_deleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a batch leaves in a mart.

    Attributes:
        rows: the living rows.
        before: the living rows that the mart has until the batch is published; None where it has none.
        gained: how many more it has then.
    """

    rows: LeftRows
    before: DataFrame | None
    gained: int


def left_by_delta(batch: MartBatch, delta: PositionDelta, columns: Collection[str]) -> Left:
    """Return what a row delta will leave, of which nothing is written yet; ``columns`` are those that rules name."""
    spec, counts = batch.spec, delta.counts
    flags = [name for name in _FLAGS if name in delta.rows.column_names]
    wanted = dict.fromkeys([*spec.keys, *columns, *flags, r.POSITION, r.ROW])
    spark = batch.changes.spark
    new = living_rows(spark_frame(spark, delta.rows.select([*wanted])), spec.columns)
    before = living_rows(batch.target.table, spec.columns)
    replaced = spark_frame(spark, delta.keys)
    rows = LeftRows(new=new, all=before, replaced=replaced, keys=spec.keys)
    return Left(rows=rows, before=before, gained=counts.inserted - counts.deleted)


def left_on_branch(
    transaction: TableTransaction,
    spec: FoldSpec,
    before: DataFrame | None,
    counts: DeltaCounts | WholeCounts,
    after: DataFrame,
    *,
    is_appended: bool,
) -> Left:
    """Return what was written to a branch: all that it has, and what the last write appended or the whole mart."""
    rows = living_rows(after, spec.columns)
    new = living_rows(transaction.appended(), spec.columns) if is_appended else rows
    old = None if before is None else living_rows(before, spec.columns)
    return Left(rows=LeftRows(new=new, all=rows), before=old, gained=counts.inserted - counts.deleted)


def left_whole(rows: DataFrame, spec: FoldSpec, before: DataFrame | None) -> Left:
    """Return what rows that are to replace a whole mart leave, of which nothing is written yet.

    Cost: counts of both.
    """
    living = living_rows(rows, spec.columns)
    old = None if before is None else living_rows(before, spec.columns)
    gained = living.count() - (0 if old is None else old.count())
    return Left(rows=LeftRows(new=living, all=living), before=old, gained=gained)
