"""The newest state of every key, with deleted rows removed (hard) or flagged (soft)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from frazil.bronze import record as r
from frazil.marts.fold import NEWEST, VALUES
from frazil.marts.fold_spec import EVENT_TIME, columns_of, same, time_of_delete, told_time
from frazil.marts.query import query_frames
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.fold_spec import FoldSpec

STANDS: Final = "_cdc_stands"
"""Whether the table has a row for the key's newest state."""

TIMES: Final = (EVENT_TIME, r.SOURCE_TIME)
"""Columns of a state with the time of a delete."""

FLAGS: Final = ("is_deleted", "deleted_at", r.POSITION, r.ROW)
"""Columns of a soft table that come from a delete, even from a delete without values."""


def hard_rows(folded: DataFrame, spec: FoldSpec) -> DataFrame:
    """Return the rows of a current table without deleted ones.

    Args:
        folded: one row per key, from :func:`frazil.marts.fold.newest`.
        spec: the table's parts.

    Returns:
        At most one row per key: the contract's columns, ``_cdc_position``, ``_cdc_row``. A key whose newest
        change is a delete has no row.
    """
    return states(folded, spec, "hard").where(STANDS).drop(STANDS)


def soft_rows(folded: DataFrame, spec: FoldSpec) -> DataFrame:
    """Return the rows of a current table, with deleted ones flagged and with their last known values.

    Args:
        folded: as for :func:`hard_rows`; after a delete, ``_cdc_values`` has the last known values.
        spec: the table's parts.

    Returns:
        At most one row per key: the contract's columns, ``is_deleted``, ``deleted_at`` (time of the newest delete, see
        :func:`frazil.marts.fold_spec.time_of_delete`, NULL for a live row), ``_cdc_position``, ``_cdc_row``. A key with
        only deletes has no row.
    """
    return states(folded, spec, "soft").where(STANDS).drop(STANDS, *TIMES)


def states(folded: DataFrame, spec: FoldSpec, deletes: Literal["hard", "soft"]) -> DataFrame:
    """Return the newest states of all keys, including those without a row in the table.

    Args:
        folded: as for :func:`hard_rows` and :func:`soft_rows`.
        spec: the table's parts.
        deletes: the kind of current table.

    Returns:
        One row per key: the table's columns, then ``_cdc_stands``; of a soft table then ``TIMES`` too.
    """
    dies = f"{NEWEST}.{r.CLASS} = '{r.DELETE}'"
    flags, stands, times = "", f"NOT ({dies})", ""
    if deletes == "soft":
        at = time_of_delete(told_time(spec, VALUES), NEWEST)
        flags = f"{dies} AS is_deleted, CASE WHEN {dies} THEN {at} END AS deleted_at,"
        times = f", {columns_of(TIMES, NEWEST)}"
        stands = f"{VALUES} IS NOT NULL"
    return query_frames(
        f"""
        SELECT
            {", ".join(quote(name) if name in spec.keys else columns_of((name,), VALUES) for name in spec.columns)},
            {flags}
            {columns_of((r.POSITION, r.ROW), NEWEST)},
            {stands} AS {STANDS}{times}
        FROM frazil_folded""",
        frazil_folded=folded,
    )


def last_known(target: DataFrame, dead: DataFrame, spec: FoldSpec) -> DataFrame:
    """Return the rows of a soft table for keys whose delete came without values.

    Args:
        target: the table's rows, which have the last known values.
        dead: the keys, the ``FLAGS`` and the ``TIMES`` of the deletes.
        spec: the table's parts.

    Cost: a scan of the table against a broadcast.
    """
    at = time_of_delete(told_time(spec, "t"), "d")
    return query_frames(
        f"""
        SELECT /*+ BROADCAST(d) */
            {columns_of(spec.columns, "t")}, d.is_deleted, {at} AS deleted_at,
            {columns_of((r.POSITION, r.ROW), "d")}
        FROM frazil_target AS t JOIN frazil_dead AS d ON {same(spec.keys, "t", "d")}""",
        frazil_target=target,
        frazil_dead=dead,
    )
