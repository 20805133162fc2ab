"""Which changes of a batch are late, and which keys have to be folded anew from all their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.marts.shape import EVENT_TIME, columns_of
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from frazil.marts.shape import Shape

HELD = "_held"
HELD_TIME = "_held_time"
IN_TARGET = "_in_target"


def held(target: DataFrame, deletes: DataFrame, touched: DataFrame, shape: Shape) -> DataFrame:
    """Find what is already applied for the keys a batch touches.

    Args:
        target: rows of the mart that stand for the newest state of a key, at most one a key.
        deletes: deletes of earlier batches, from silver: the tombstones.
        touched: the batch's distinct keys.
        shape: the table's parts.

    Returns:
        At most one row per touched key: the keys, ``_held`` (greatest order applied, a struct of the order
        columns), ``_held_time`` (greatest event time among row and tombstones), ``_in_target`` (the mart has a row).

    Cost: one scan of the mart's key and order columns and one of the deletes, each against a broadcast.
    """
    seen = [
        side.join(F.broadcast(touched), list(shape.keys), "left_semi").select(
            *columns_of(shape.keys),
            F.struct(*columns_of(shape.order_columns)).alias(HELD),
            EVENT_TIME,
            is_row.alias(IN_TARGET),
        )
        for side, is_row in ((target, F.lit(True)), (deletes, F.lit(False)))
    ]
    return (
        seen[0]
        .unionByName(seen[1])
        .groupBy(*columns_of(shape.keys))
        .agg(F.max(HELD).alias(HELD), F.max(EVENT_TIME).alias(HELD_TIME), F.bool_or(IN_TARGET).alias(IN_TARGET))
    )


def is_late(shape: Shape) -> Column:
    """Tell of a change row joined with what is held: it is not newer than what its key already has."""
    return F.coalesce(F.struct(*columns_of(shape.order_columns)) <= F.col(HELD), F.lit(False))


def is_not_after(shape: Shape) -> Column:
    """Tell of a change row joined with what is held: its event time does not lie after all held ones.

    History can append a version only at the end of a key's time; where event times are not the first part of
    the order, no held row can tell where that is, so every change of a known key counts.
    """
    known = F.col(HELD).isNotNull()
    return known if not shape.times_follow_order else F.coalesce(F.col(EVENT_TIME) <= F.col(HELD_TIME), known)


def is_incomplete(shape: Shape) -> Column:
    """Tell of a change row: it does not carry every column, so older changes fill it."""
    oldest = max(shape.since.values(), default=0)
    return F.col(r.KNOWN).isNotNull() | (F.col(r.BATCH) < oldest)


def of_keys(changes: DataFrame, keys: DataFrame, names: Sequence[str], how: str = "left_semi") -> DataFrame:
    """Keep the rows whose key is (``left_semi``) or is not (``left_anti``) among some keys."""
    return changes.join(F.broadcast(keys.select(*map(quote, names))), list(names), how)
