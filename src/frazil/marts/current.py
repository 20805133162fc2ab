"""The newest state of every key, deleted rows gone (hard) or flagged (soft)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from frazil.bronze import record as r
from frazil.marts.fold import NEWEST, VALUES
from frazil.marts.fold_spec import EVENT_TIME, columns_of, same, time_of_delete, told_time
from frazil.marts.query import query
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.fold_spec import FoldSpec

STANDS: Final = "_cdc_stands"
"""Whether the table has a row of the key's newest state."""

TIMES: Final = (EVENT_TIME, r.SOURCE_TIME)
"""Columns of a state that say when a row was deleted."""

FLAGS: Final = ("is_deleted", "deleted_at", r.POSITION, r.ROW)
"""Columns of a soft table that come from a delete, even from one without values."""


def hard(folded: DataFrame, spec: FoldSpec) -> DataFrame:
    """Rows of the current table without deleted ones.

    Args:
        folded: one row per key, from :func:`frazil.marts.fold.newest`.
        spec: the table's parts.

    Returns:
        At most one row per key: the contract's columns, ``_cdc_position``, ``_cdc_row``. A key whose newest
        change is a delete has none.
    """
    return states(folded, spec, "hard").where(STANDS).drop(STANDS)


def soft(folded: DataFrame, spec: FoldSpec) -> DataFrame:
    """Rows of the current table, deleted ones flagged and with their last known values.

    Args:
        folded: as for :func:`hard`; where a delete is newest, ``_cdc_values`` are the last known ones.
        spec: the table's parts.

    Returns:
        At most one row per key: the contract's columns, ``is_deleted``, ``deleted_at`` (time of the newest delete, see
        :func:`frazil.marts.fold_spec.time_of_delete`, NULL for a live row), ``_cdc_position``, ``_cdc_row``. A key of
        which only deletes are known has none.
    """
    return states(folded, spec, "soft").where(STANDS).drop(STANDS, *TIMES)


def states(folded: DataFrame, spec: FoldSpec, deletes: Literal["hard", "soft"]) -> DataFrame:
    """Newest states of all keys, with those that the table has no row of.

    Args:
        folded: as for :func:`hard` and :func:`soft`.
        spec: the table's parts.
        deletes: which of the two tables.

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
    return query(
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
    """Rows of a soft table for keys whose delete came without values.

    Args:
        target: the table's rows, which have the values.
        dead: the keys, the ``FLAGS`` and the ``TIMES``.
        spec: the table's parts.

    Cost: a scan of the table against a broadcast.
    """
    at = time_of_delete(told_time(spec, "t"), "d")
    return query(
        f"""
        SELECT /*+ BROADCAST(d) */
            {columns_of(spec.columns, "t")}, d.is_deleted, {at} AS deleted_at,
            {columns_of((r.POSITION, r.ROW), "d")}
        FROM frazil_target AS t JOIN frazil_dead AS d ON {same(spec.keys, "t", "d")}""",
        frazil_target=target,
        frazil_dead=dead,
    )
