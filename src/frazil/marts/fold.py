"""Fold the changes of each key in their order, as the basis of every mart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.marts import late
from frazil.marts.fold_spec import EVENT_TIME, IS_UPSERT, columns_of, order
from frazil.marts.query import query_frames
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.fold_spec import FoldSpec

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
