"""Every version of every key, with the time it was valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyspark.sql import Window
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.marts.shape import EVENT_TIME, columns_of, order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.shape import Shape

BASE = "_base"
"""True for a row that stands for a version the table already holds, with its values as last known."""


def versions(changes: DataFrame, shape: Shape, deletes: Literal["close", "mark"]) -> DataFrame:
    """Build the versions of some keys from their changes (HISTORY).

    Args:
        changes: n change rows with ``_event_time``; for each key either all its changes, or its open version
            as a change (``_base`` true, ``_event_time`` its ``valid_from``) and changes that are all newer,
            in order and in event time.
        shape: the table's parts; ``tracked`` decides what a version is.
        deletes: ``close`` ends the last version; ``mark`` also opens a row with the last known values.

    Returns:
        The versions: the contract's columns, ``valid_from``, ``valid_to`` (NULL while current),
        ``is_current``, ``is_deleted``, ``_cdc_position``, ``_cdc_row``.

    Cost: one shuffle on the keys and one sort, whatever the number of windows below.
    """
    in_order = Window.partitionBy(*columns_of(shape.keys)).orderBy(order(shape))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    by_key = Window.partitionBy(*columns_of(shape.keys)).orderBy("_order")
    past = by_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    values = F.struct(*columns_of(shape.columns))
    is_upsert = F.col(r.CLASS) == r.UPSERT

    timed = changes.select(
        *columns_of(shape.keys),
        order(shape).alias("_order"),
        is_upsert.alias("_upsert"),
        BASE,
        values.alias("_row"),
        F.when(is_upsert, F.struct(*columns_of(shape.tracked))).alias("_state"),
        F.max(EVENT_TIME).over(so_far).alias("_from"),
        F.last(F.when(is_upsert | F.col(BASE), values), ignorenulls=True).over(so_far).alias("_last_known"),
    )
    # Of several changes at one event time, which may be NULL, the last in order stands.
    after = F.lead(F.struct("_from")).over(by_key)
    is_last = F.col("_after").isNull() | ~F.col("_after._from").eqNullSafe(F.col("_from"))
    standing = timed.withColumn("_after", after).where(is_last)

    # Equal consecutive states are one version: it begins with the first and shows the values of the last.
    before = F.lag(F.struct("_upsert", "_state")).over(by_key)
    begins = before.isNull() | ~before.eqNullSafe(F.struct("_upsert", "_state"))
    marked = standing.select("*", begins.alias("_begins"), (before.isNull() & ~F.col(BASE)).alias("_leading"))
    first = F.struct("_from", "_order", "_last_known", "_leading")
    start = F.last(F.when(F.col("_begins"), first), ignorenulls=True).over(past)
    following = F.lead(F.struct("_begins", "_from", "_upsert")).over(by_key)
    ended = marked.select("*", start.alias("_start"), following.alias("_next")).where(
        F.col("_next").isNull() | F.col("_next._begins")
    )

    closed_by_delete = F.coalesce(~F.col("_next._upsert"), F.lit(False))
    if deletes == "close":
        kept, row, is_deleted = ended.where("_upsert"), F.col("_row"), closed_by_delete
        position = F.col("_order")
    else:
        last_known = F.col("_start._last_known")
        # A key that begins with a delete was never seen alive, not even for an instant.
        kept = ended.where(F.col("_upsert") | (last_known.isNotNull() & ~F.col("_start._leading")))
        row = F.when(F.col("_upsert"), F.col("_row")).otherwise(last_known)
        is_deleted = ~F.col("_upsert")
        position = F.when(F.col("_upsert"), F.col("_order")).otherwise(F.col("_start._order"))
    shaped = kept.select(row.alias("_row"), is_deleted.alias("is_deleted"), position.alias("_at"), "_start", "_next")
    return shaped.select(
        *columns_of(shape.columns, "_row"),
        F.col("_start._from").alias("valid_from"),
        F.col("_next._from").alias("valid_to"),
        F.col("_next").isNull().alias("is_current"),
        "is_deleted",
        *columns_of((r.POSITION, r.ROW), "_at"),
    )
