"""The newest state of every key, deleted rows gone (hard) or flagged (soft)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.marts.fold import NEWEST, VALUES, newest
from frazil.marts.shape import columns_of
from frazil.spec.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.shape import Shape


def hard(changes: DataFrame, shape: Shape) -> DataFrame:
    """Rows of the current table without deleted ones.

    Args:
        changes: changes of some keys, for each key those that matter: all of them, or the ones newer than
            what the table holds.
        shape: the table's parts.

    Returns:
        At most one row per key: the contract's columns, ``_cdc_position``, ``_cdc_row``. A key whose newest
        change is a delete has none.
    """
    folded = newest(changes, shape).where(F.col(f"{NEWEST}.{r.CLASS}") == r.UPSERT)
    return folded.select(*columns_of(shape.columns, VALUES), *columns_of((r.POSITION, r.ROW), NEWEST))


def soft(changes: DataFrame, shape: Shape) -> DataFrame:
    """Rows of the current table, deleted ones flagged and with their last known values.

    Args:
        changes: as for :func:`hard`; where a delete is newest, the upsert with the last known values must
            be among them or the key has no row.
        shape: the table's parts; ``event_time`` gives ``deleted_at``.

    Returns:
        At most one row per key: the contract's columns, ``is_deleted``, ``deleted_at`` (NULL for a live
        row), ``_cdc_position``, ``_cdc_row``.
    """
    folded = newest(changes, shape).where(F.col(VALUES).isNotNull())
    deleted = F.col(f"{NEWEST}.{r.CLASS}") == r.DELETE
    at = F.col(quote(NEWEST, shape.event_time)).cast("timestamp") if shape.event_time in shape.sequence_by else None
    deleted_at = F.when(deleted, at) if at is not None else F.lit(None).cast("timestamp")
    return folded.select(
        *columns_of(shape.columns, VALUES),
        deleted.alias("is_deleted"),
        deleted_at.alias("deleted_at"),
        *columns_of((r.POSITION, r.ROW), NEWEST),
    )
