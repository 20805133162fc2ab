"""Fold the changes of each key in their order: what every mart is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.marts.shape import EVENT_TIME, columns_of, order
from frazil.spec.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from frazil.marts.shape import Shape

NEWEST = "_newest"
VALUES = "_values"


def newest(changes: DataFrame, shape: Shape, *also: Column) -> DataFrame:
    """Keep, of every key, its newest change and the values of its newest upsert.

    Args:
        changes: n change rows in the shape of silver; any order, repeats allowed. Every column a change
            carries counts; one that carries fewer must have been filled by :func:`fill` before.
        shape: the table's parts.
        also: further aggregates of a key's changes, each with an alias.

    Returns:
        One row per key: the keys; ``_newest`` (struct of class, order columns and event time); ``_values``
        (struct of all columns of the newest upsert, NULL if the key has none); then ``also``. A total order
        leaves no ties.

    Cost: one shuffle on the keys, no window.
    """
    rank = order(shape)
    values = F.struct(*columns_of(shape.columns))
    return changes.groupBy(*columns_of(shape.keys)).agg(
        F.max_by(F.struct(r.CLASS, EVENT_TIME, *columns_of(shape.order_columns)), rank).alias(NEWEST),
        # max_by skips rows whose order is NULL, so deletes do not take part.
        F.max_by(values, F.when(F.col(r.CLASS) == r.UPSERT, rank)).alias(VALUES),
        *also,
    )


def fill(changes: DataFrame, shape: Shape) -> DataFrame:
    """Give a change that does not carry a column the value in force just before it (MISSING-IS-NOT-NULL).

    A delete ends all values: an upsert after it starts from nothing.

    Args:
        changes: *all* changes of their keys.
        shape: the table's parts.

    Returns:
        The same rows with every column of an upsert filled; ``_cdc_known`` is NULL in all.

    Cost: one shuffle on the keys and a sort; only tables with such changes pay it.
    """
    keys = [F.col(quote(key)) for key in shape.keys]
    past = Window.partitionBy(*keys).orderBy(order(shape)).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    lives = changes.withColumn("_life", F.sum((F.col(r.CLASS) == r.DELETE).cast("int")).over(past))
    life = (
        Window.partitionBy(*keys, "_life")
        .orderBy(order(shape))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    fixed = {*shape.keys, *shape.sequence_by}
    filled = [
        (
            F.col(quote(name))
            if name in fixed
            else F.last(F.when(_carries(name, shape), F.struct(quote(name))), ignorenulls=True).over(life)[name]
        ).alias(name)
        for name in shape.columns
    ]
    kept = [quote(name) for name in changes.columns if name not in {*shape.columns, r.KNOWN}]
    return lives.select(*filled, *kept, F.lit(None).cast("array<string>").alias(r.KNOWN))


def _carries(name: str, shape: Shape) -> Column:
    listed = F.array_contains(r.KNOWN, name)
    everything = F.col(r.KNOWN).isNull() & (F.col(r.BATCH) >= shape.since.get(name, 0))
    return (F.col(r.CLASS) == r.UPSERT) & (everything | F.coalesce(listed, F.lit(False)))
