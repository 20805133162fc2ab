"""The newest state of every key, deleted rows gone (hard) or flagged (soft)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.marts.fold import NEWEST, VALUES
from frazil.marts.query import query
from frazil.marts.shape import EVENT_TIME, columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.shape import Shape


def hard(folded: DataFrame, shape: Shape) -> DataFrame:
    """Rows of the current table without deleted ones.

    Args:
        folded: one row per key, from :func:`frazil.marts.fold.newest`.
        shape: the table's parts.

    Returns:
        At most one row per key: the contract's columns, ``_cdc_position``, ``_cdc_row``. A key whose newest
        change is a delete has none.
    """
    return query(
        f"""
        SELECT {columns_of(shape.columns, VALUES)}, {columns_of((r.POSITION, r.ROW), NEWEST)}
        FROM frazil_folded WHERE {NEWEST}.{r.CLASS} = '{r.UPSERT}'""",
        frazil_folded=folded,
    )


def soft(folded: DataFrame, shape: Shape) -> DataFrame:
    """Rows of the current table, deleted ones flagged and with their last known values.

    Args:
        folded: as for :func:`hard`; where a delete is newest, ``_cdc_values`` are the last known ones.
        shape: the table's parts.

    Returns:
        At most one row per key: the contract's columns, ``is_deleted``, ``deleted_at`` (event time of the
        newest delete, NULL for a live row), ``_cdc_position``, ``_cdc_row``. A key of which only deletes are
        known has none.
    """
    deleted = f"{NEWEST}.{r.CLASS} = '{r.DELETE}'"
    return query(
        f"""
        SELECT
            {columns_of(shape.columns, VALUES)},
            {deleted} AS is_deleted,
            CASE WHEN {deleted} THEN {NEWEST}.{EVENT_TIME} END AS deleted_at,
            {columns_of((r.POSITION, r.ROW), NEWEST)}
        FROM frazil_folded WHERE {VALUES} IS NOT NULL""",
        frazil_folded=folded,
    )
