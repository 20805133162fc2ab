"""Fold the changes of each key in their order, as the basis of every mart, and compute its newest state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from frazil.bronze import record as r
from frazil.marts import late
from frazil.marts.layout import EVENT_TIME, IS_UPSERT, columns_of, order, same, time_of_delete, told_time
from frazil.marts.query import query_frames
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.layout import FoldSpec


NEWEST: Final = "_cdc_newest"
VALUES: Final = "_cdc_values"
_HELD: Final = "_cdc_is_held"
_NEWEST_BATCH: Final = "9223372036854775807L"
"""Greater than any batch: a mart's row has every column."""


def newest(changes: DataFrame, spec: FoldSpec, *also: str) -> DataFrame:
    """Keep, of every key, its newest change and the values of its newest upsert.

    Args:
        changes: n change rows in the shape of silver; any order, repeats allowed. A change that does not carry every
            column must have been filled by :func:`fill` before.
        spec: the table's parts.
        also: further aggregates of a key's changes as SQL, each with an alias.

    Returns:
        One row per key: the keys; ``_cdc_newest`` (struct of class, both times and order columns);
        ``_cdc_values`` (struct of all columns of the newest upsert, NULL if the key has none); then ``also``.
        A total order leaves no ties.

    Cost: one shuffle on the keys, no window.
    """
    # max_by skips rows with a NULL order, so the second one ignores deletes.
    order_of_values = f"CASE WHEN {IS_UPSERT} THEN _cdc_order END"
    aggregates = [
        f"max_by({_stand(spec)}, _cdc_order) AS {NEWEST}",
        f"max_by(struct({columns_of(spec.columns)}), {order_of_values}) AS {VALUES}",
        *also,
    ]
    return query_frames(
        f"""
        SELECT {columns_of(spec.keys)}, {", ".join(aggregates)}
        FROM (SELECT *, {order(spec)} AS _cdc_order FROM frazil_changes)
        GROUP BY {columns_of(spec.keys)}""",
        frazil_changes=changes,
    )


def alone(changes: DataFrame, spec: FoldSpec) -> DataFrame:
    """Return :func:`newest` for keys with a single change, without a shuffle."""
    values = f"CASE WHEN {IS_UPSERT} THEN struct({columns_of(spec.columns)}) END"
    return changes.selectExpr(*map(quote, spec.keys), f"{_stand(spec)} AS {NEWEST}", f"{values} AS {VALUES}")


def _stand(spec: FoldSpec) -> str:
    return f"struct({r.CLASS}, {EVENT_TIME}, {r.SOURCE_TIME}, {columns_of(spec.order_columns)})"


def fill(changes: DataFrame, spec: FoldSpec) -> DataFrame:
    """Fill a column that a change does not carry with the value in force just before it (MISSING-IS-NOT-NULL).

    A delete ends all values: an upsert after it starts from nothing.

    Args:
        changes: *all* changes of their keys.
        spec: the table's parts.

    Returns:
        The same rows with every column of an upsert filled; a delete keeps only keys, order and times. ``_cdc_known``
        is NULL in all rows.

    Cost: one shuffle on the keys and a sort, only for tables with such changes.
    """
    fixed = {*spec.keys, *spec.sequence_by}
    filled = [quote(name) if name in fixed else _in_force(name, spec) for name in spec.columns]
    kept = [quote(name) for name in changes.columns if name not in {*spec.columns, r.KNOWN}]
    rows = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    return query_frames(
        f"""
        SELECT {", ".join([*filled, *kept])}, CAST(NULL AS array<string>) AS {r.KNOWN}
        FROM (
            SELECT *, sum(CASE WHEN {IS_UPSERT} THEN 0 ELSE 1 END) OVER past AS _cdc_life
            FROM (SELECT *, {order(spec)} AS _cdc_order FROM frazil_changes)
            WINDOW past AS (PARTITION BY {columns_of(spec.together)} ORDER BY _cdc_order {rows})
        )
        WINDOW in_life AS (PARTITION BY {columns_of(spec.together)}, _cdc_life ORDER BY _cdc_order {rows})""",
        frazil_changes=changes,
    )


def fill_from(changes: DataFrame, living: DataFrame, spec: FoldSpec) -> DataFrame:
    """Fill changes from the values in a mart; for keys without late changes the result equals that of :func:`fill`.

    Args:
        changes: the changes of a batch.
        living: live rows of a mart, at most one for each key.
        spec: the table's parts.

    Cost: for the keys of incomplete changes, a scan of the mart against a broadcast, and a shuffle and sort of their
        changes.
    """
    lacking = changes.where(late.incomplete_sql(spec)).select(*map(quote, spec.keys))
    some, others = (late.filter_keys(changes, lacking, spec.keys, among=among) for among in (True, False))
    columns = [*map(quote, spec.columns), r.POSITION, r.ROW, f"{literal(r.UPSERT)} AS {r.CLASS}"]
    held = late.filter_keys(living, lacking, spec.keys).selectExpr(
        *columns, f"{_NEWEST_BATCH} AS {r.BATCH}", f"true AS {_HELD}"
    )
    filled = fill(some.unionByName(held, allowMissingColumns=True), spec).where(f"{_HELD} IS NULL")
    return others.unionByName(filled.select(*map(quote, changes.columns)))


def _in_force(name: str, spec: FoldSpec) -> str:
    column = quote(name)
    value = f"(last(CASE WHEN {_carries(name, spec)} THEN struct({column}) END, true) OVER in_life).{column}"
    if name in spec.event_times:
        # A delete has a time but no values.
        value = f"CASE WHEN {IS_UPSERT} THEN {value} ELSE {column} END"
    return f"{value} AS {column}"


def _carries(name: str, spec: FoldSpec) -> str:
    everything = f"{r.KNOWN} IS NULL AND {r.BATCH} >= {spec.since.get(name, 0)}"
    return f"{IS_UPSERT} AND ({everything} OR coalesce(array_contains({r.KNOWN}, {literal(name)}), false))"


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
        :func:`frazil.marts.layout.time_of_delete`, NULL for a live row), ``_cdc_position``, ``_cdc_row``. A key with
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
