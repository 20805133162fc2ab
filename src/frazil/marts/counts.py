"""Count inserted, updated and deleted keys after a full write of a mart, as ``MartReport`` defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.marts.layout import EVENT_TIME, IS_UPSERT, columns_of, order, same
from frazil.marts.query import query_frames
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

    from frazil.marts.layout import FoldSpec

STAND: Final = "_cdc_stand"
"""Hash of the order of a row's newest change: sequence, position and row."""

_OF_LIVING: Final = {"is_current": "is_current", "is_deleted": "NOT is_deleted"}


def living_rows(rows: DataFrame, columns: Collection[str]) -> DataFrame:
    """Keep the newest row of each key that is not deleted.

    Args:
        rows: all rows of a mart of any kind. A flag is NULL in rows that the mart wrote as another kind.
        columns: columns of the contract.
    """
    # A dropped column of the source can have this name, and its values remain.
    is_flag = {name: kind == "boolean" and name not in columns for name, kind in rows.dtypes}
    flags = [name for name in _OF_LIVING if is_flag.get(name)]
    return rows.where(" AND ".join(f"({name} IS NULL OR {_OF_LIVING[name]})" for name in flags) or "true")


def living(rows: DataFrame, spec: FoldSpec) -> DataFrame:
    """Return the keys that are not deleted.

    Args:
        rows: as for :func:`living_rows`.
        spec: the table's parts.

    Returns:
        The keys and ``_cdc_stand``.

    Cost: a scan of the keys, the order columns and the flags.
    """
    return living_rows(rows, spec.columns).selectExpr(
        *map(quote, spec.keys), f"xxhash64({columns_of(spec.order_columns)}) AS {STAND}"
    )


def compared(before: DataFrame, after: DataFrame, spec: FoldSpec) -> DataFrame:
    """Count the inserted and deleted keys, and the keys with another newest change than before.

    Args:
        before: from :func:`living`, of the rows before the write.
        after: from :func:`living`, of the rows after it.
        spec: the table's parts.

    Returns:
        One row: ``inserted``, ``updated`` and ``deleted``.

    Cost: one shuffle of both.
    """
    return query_frames(
        f"""
        SELECT
            count_if(_cdc_before IS NULL) AS inserted,
            count_if(_cdc_before <> _cdc_after) AS updated,
            count_if(_cdc_after IS NULL) AS deleted
        FROM (
            SELECT max(CASE WHEN NOT _cdc_is_after THEN {STAND} END) AS _cdc_before,
                   max(CASE WHEN _cdc_is_after THEN {STAND} END) AS _cdc_after
            FROM (
                SELECT *, false AS _cdc_is_after FROM frazil_before
                UNION ALL
                SELECT *, true AS _cdc_is_after FROM frazil_after
            )
            GROUP BY {columns_of(spec.keys)}
        )""",
        frazil_before=before,
        frazil_after=after,
    )


def late_rows(changes: DataFrame, spec: FoldSpec, *, after: int) -> DataFrame:
    """Count the changes after a batch that are not newer than the newest earlier change of their key.

    Args:
        changes: all changes, in the shape of silver.
        spec: the table's parts.
        after: number of the batch.

    Returns:
        One row: ``late``.

    Cost: one shuffle on the keys, of the order columns.
    """
    order, is_new = f"struct({columns_of(spec.order_columns)})", f"{r.BATCH} > {int(after)}"
    return query_frames(
        f"""
        SELECT count_if(_cdc_is_new AND _cdc_order <= _cdc_held) AS late
        FROM (
            SELECT
                {is_new} AS _cdc_is_new,
                {order} AS _cdc_order,
                max(CASE WHEN NOT ({is_new}) THEN {order} END) OVER (PARTITION BY {columns_of(spec.keys)}) AS _cdc_held
            FROM frazil_changes
        )""",
        frazil_changes=changes,
    )


def untimed_deletes(changes: DataFrame, spec: FoldSpec, condition: str) -> DataFrame:
    """Count deletes of known rows without a time: neither the source nor the event time gives one.

    Args:
        changes: all changes, in the shape of silver, with event time.
        spec: the table's parts.
        condition: SQL condition of the deletes to count.

    Returns:
        One row: ``untimed``.

    Cost: a scan of the changes against a broadcast of the keys, and a sort of those of the keys.
    """
    keys, untimed = columns_of(spec.keys), f"NOT ({IS_UPSERT}) AND {r.SOURCE_TIME} IS NULL AND {condition}"
    return query_frames(
        f"""
        SELECT count_if({untimed} AND _cdc_told IS NOT NULL AND coalesce({EVENT_TIME} <= _cdc_told._cdc_at, true))
            AS untimed
        FROM (
            SELECT *, last(CASE WHEN {IS_UPSERT} THEN struct({EVENT_TIME} AS _cdc_at) END, true)
                OVER (PARTITION BY {keys} ORDER BY _cdc_order) AS _cdc_told
            FROM (
                SELECT /*+ BROADCAST(k) */ c.*, {order(spec)} AS _cdc_order
                FROM frazil_changes AS c
                LEFT SEMI JOIN (SELECT {keys} FROM frazil_changes WHERE {untimed}) AS k ON {same(spec.keys, "c", "k")}
            )
        )""",
        frazil_changes=changes,
    )
