"""Every version of every key, with its time of validity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from frazil.bronze import record as r
from frazil.marts.fold import fill
from frazil.marts.layout import EVENT_TIME, IS_UPSERT, columns_of, order, time_of_delete, told_time
from frazil.marts.query import query_frames
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.layout import FoldSpec

BASE: Final = "_cdc_base"
"""True for a row that represents a version in the table, with its last known values."""


def versions(changes: DataFrame, spec: FoldSpec, deletes: Literal["close", "mark"]) -> DataFrame:
    """Build the versions of some keys from their changes (HISTORY).

    Args:
        changes: n change rows with event time. For each key either all its changes, or its open version
            as a change (``_cdc_base`` true, event time its ``valid_from``) and changes that are all newer,
            in order and in event time.
        spec: the table's parts; a change in ``tracked`` opens a version.
        deletes: ``close`` ends the last version; ``mark`` also opens a row with the last known values.

    Returns:
        The versions: the contract's columns, ``valid_from``, ``valid_to`` (NULL while current),
        ``is_current``, ``is_deleted``, ``_cdc_position``, ``_cdc_row``; then the columns of ``spec.apart``.

    Cost: one shuffle on the keys and one sort, for all windows together.
    """
    if deletes == "close":
        kept, row, at = "_cdc_upsert", "_cdc_values", "_cdc_order"
        is_deleted = "coalesce(NOT _cdc_next._cdc_upsert, false)"
    else:
        # A key whose first change is a delete was never live.
        kept = "_cdc_upsert OR (_cdc_start._cdc_last_known IS NOT NULL AND NOT _cdc_start._cdc_leading)"
        row = "CASE WHEN _cdc_upsert THEN _cdc_values ELSE _cdc_start._cdc_last_known END"
        at = "CASE WHEN _cdc_upsert THEN _cdc_order ELSE _cdc_start._cdc_order END"
        is_deleted = "NOT _cdc_upsert"
    apart = "".join(f", {quote(name)}" for name in spec.apart)
    return query_frames(
        f"""
        WITH {_standing_sql(spec)}, {_ended_sql(spec)}
        SELECT
            {columns_of(spec.columns, "_cdc_shown")},
            _cdc_start._cdc_from AS valid_from,
            _cdc_next._cdc_from AS valid_to,
            _cdc_next IS NULL AS is_current,
            is_deleted,
            {columns_of((r.POSITION, r.ROW), "_cdc_at")}{apart}
        FROM (
            SELECT {row} AS _cdc_shown, {is_deleted} AS is_deleted, {at} AS _cdc_at, _cdc_start, _cdc_next{apart}
            FROM ended WHERE {kept}
        )""",
        frazil_changes=changes,
    )


def _standing_sql(spec: FoldSpec) -> str:
    """Write the changes that count at their event time, with the last known values of their key."""
    keys, values = columns_of(spec.together), f"struct({columns_of(spec.columns)})"
    by_key = f"PARTITION BY {keys} ORDER BY _cdc_order"
    told = told_time(spec, "_cdc_last_known")
    so_far, brings = f"{by_key} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", f"{IS_UPSERT} OR {BASE}"
    return f"""known AS (
            SELECT
                {keys}, {BASE}, _cdc_order, {EVENT_TIME}, {r.SOURCE_TIME},
                {IS_UPSERT} AS _cdc_upsert, {brings} AS _cdc_brings,
                {values} AS _cdc_values,
                CASE WHEN {IS_UPSERT} THEN struct({columns_of(spec.tracked)}) END AS _cdc_state,
                last(CASE WHEN {brings} THEN {values} END, true) OVER ({so_far}) AS _cdc_last_known
            FROM {_told_sql(spec)}
        ),
        timed AS (
            SELECT
                *,
                max(CASE WHEN _cdc_brings THEN {EVENT_TIME} ELSE {time_of_delete(told)} END) OVER ({so_far})
                    AS _cdc_from
            FROM known
        ),
        -- Of several upserts at one event time, which may be NULL, the last in order stands. So of several deletes.
        standing AS (
            SELECT * FROM (SELECT *, lead(struct(_cdc_from, _cdc_upsert)) OVER ({by_key}) AS _cdc_after FROM timed)
            WHERE _cdc_after IS NULL OR NOT (_cdc_after <=> struct(_cdc_from, _cdc_upsert))
        )"""


def _told_sql(spec: FoldSpec) -> str:
    """Write the changes with their order, without a snapshot's deletes of rows that it brings again."""
    ordered = f"(SELECT *, {order(spec)} AS _cdc_order FROM frazil_changes)"
    if spec.snapshot_places is None:
        return ordered
    by_key = f"PARTITION BY {columns_of(spec.together)} ORDER BY _cdc_order"
    # Silver may have a delete twice, so the next upsert counts.
    then = f"lead(CASE WHEN {IS_UPSERT} THEN {r.POSITION} END) IGNORE NULLS OVER ({by_key})"
    is_own = f"_cdc_then LIKE {literal(spec.snapshot_places)} AND startswith(_cdc_then, {r.POSITION})"
    return f"""(
                SELECT * FROM (SELECT *, {then} AS _cdc_then FROM {ordered})
                WHERE {IS_UPSERT} OR {BASE} OR NOT coalesce({is_own}, false)
            )"""


def _ended_sql(spec: FoldSpec) -> str:
    """Write the versions, each with its first change and the next version.

    Equal consecutive states are one version, which begins with the first and has the values of the last.
    """
    by_key = f"PARTITION BY {columns_of(spec.together)} ORDER BY _cdc_order"
    first = "struct(_cdc_from, _cdc_order, _cdc_last_known, _cdc_leading)"
    so_far = f"{by_key} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    return f"""marked AS (
            SELECT
                *,
                _cdc_before IS NULL OR NOT (_cdc_before <=> struct(_cdc_upsert, _cdc_state)) AS _cdc_begins,
                _cdc_before IS NULL AND NOT {BASE} AS _cdc_leading
            FROM (SELECT *, lag(struct(_cdc_upsert, _cdc_state)) OVER ({by_key}) AS _cdc_before FROM standing)
        ),
        ended AS (
            SELECT * FROM (
                SELECT
                    *,
                    last(CASE WHEN _cdc_begins THEN {first} END, true) OVER ({so_far}) AS _cdc_start,
                    lead(struct(_cdc_begins, _cdc_from, _cdc_upsert)) OVER ({by_key}) AS _cdc_next
                FROM marked
            )
            WHERE _cdc_next IS NULL OR _cdc_next._cdc_begins
        )"""


def next_versions(
    new: DataFrame,
    open_rows: DataFrame,
    spec: FoldSpec,
    deletes: Literal["close", "mark"],
    *,
    whole: DataFrame | None = None,
    in_one_task: bool = False,
) -> DataFrame:
    """Build the versions of a batch's keys after the batch: from the open version of each key on.

    Args:
        new: changes of the batch, all newer than the open versions of their keys.
        open_rows: the open versions of these keys, with their event time.
        spec: the table's parts.
        deletes: as for :func:`versions`.
        whole: all changes of keys with late or incomplete ones, which are not in ``new`` and ``open_rows``; all their
            versions are built.
        in_one_task: fold in one task, without a shuffle; ignored with ``whole``.
    """
    change = [*map(quote, spec.columns), r.CLASS, r.POSITION, r.ROW, EVENT_TIME, r.SOURCE_TIME, f"false AS {BASE}"]
    held = open_rows.selectExpr(
        *map(quote, spec.columns),
        f"CASE WHEN is_deleted THEN '{r.DELETE}' ELSE '{r.UPSERT}' END AS {r.CLASS}",
        r.POSITION,
        r.ROW,
        f"valid_from AS {EVENT_TIME}",
        f"CAST(NULL AS timestamp) AS {r.SOURCE_TIME}",
        f"true AS {BASE}",
    )
    rows = new.selectExpr(*change).union(held)
    if whole is not None:
        rows = rows.union((fill(whole, spec) if spec.fills else whole).selectExpr(*change))
    elif in_one_task:
        rows = rows.coalesce(1)
    return versions(rows, spec, deletes)


def open_versions(changes: DataFrame, spec: FoldSpec) -> DataFrame:
    """Build the versions of keys with a single change: an upsert is an open version, a delete gives no row.

    Cost: narrow, no shuffle.
    """
    return query_frames(
        f"""
        SELECT
            {columns_of(spec.columns)},
            {EVENT_TIME} AS valid_from,
            CAST(NULL AS timestamp) AS valid_to,
            true AS is_current,
            false AS is_deleted,
            {columns_of((r.POSITION, r.ROW))}
        FROM frazil_changes WHERE {IS_UPSERT}""",
        frazil_changes=changes,
    )
