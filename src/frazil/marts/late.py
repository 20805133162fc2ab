"""Find late changes of a batch, keys to recompute from all their changes, and the verdict on each key.

The Spark fold computes them in SQL, the Arrow fold in arrays. They decide which rows of the mart are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.marts.layout import EVENT_TIME, IS_UPSERT, columns_of, same
from frazil.marts.query import query_frames
from frazil.spec import Current, History
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.marts.layout import FoldSpec

HELD: Final = "_cdc_held"
HELD_TIME: Final = "_cdc_held_time"
IN_TARGET: Final = "_cdc_in_target"
LIVED: Final = "_cdc_lived"
"""Whether the mart has a live row of a key."""


def target_rows(target: DataFrame, touched: DataFrame, spec: FoldSpec, *also: str, lives: str = "true") -> DataFrame:
    """Find the rows of a mart for the keys of a batch.

    Args:
        target: rows of the mart with the newest state of each key, at most one for each key.
        touched: rows with the batch's keys, repeats allowed.
        spec: the table's parts.
        also: SQL of further columns of the target.
        lives: SQL condition of a live row of the target; never NULL.

    Returns:
        At most one row per key: the keys, ``_cdc_in_target``, which is true, ``_cdc_lived``, then ``also``.

    Cost: one scan of the named columns of the target, against a broadcast.
    """
    columns = [f"true AS {IN_TARGET}", f"{lives} AS {LIVED}", *also]
    return query_frames(
        f"""
        SELECT /*+ BROADCAST(k) */ {columns_of(spec.keys)}, {", ".join(columns)}
        FROM frazil_target AS t LEFT SEMI JOIN frazil_touched AS k ON {same(spec.keys, "t", "k")}""",
        frazil_target=target,
        frazil_touched=touched,
    )


def held_order(rows: DataFrame, spec: FoldSpec) -> DataFrame:
    """Return each row's order and event time.

    Args:
        rows: at most one row per key, with the order columns and the event time.
        spec: the table's parts.

    Returns:
        The same rows: the keys; ``_cdc_held``, the order as a struct of the order columns; and ``_cdc_held_time``, the
        event time.
    """
    order = f"struct({columns_of(spec.order_columns)}) AS {HELD}"
    return rows.selectExpr(*map(quote, spec.keys), order, f"{EVENT_TIME} AS {HELD_TIME}")


def tombstones(deletes: DataFrame, touched: DataFrame, spec: FoldSpec, *, in_one_task: bool = False) -> DataFrame:
    """Find the newest delete of earlier batches for the keys of a batch.

    Args:
        deletes: deletes of earlier batches, from silver, with event time.
        touched: rows with the batch's keys, repeats allowed.
        spec: the table's parts.
        in_one_task: read in one task, without a shuffle, which costs more than reading some tens of files.

    Returns:
        At most one row per key: the keys, and the greatest ``_cdc_held`` and ``_cdc_held_time``. No delete of the key
        ended a version after that time, unless the version began later.
    """
    hints = "COALESCE(1), BROADCAST(k)" if in_one_task else "BROADCAST(k)"
    return query_frames(
        f"""
        SELECT
            {columns_of(spec.keys)},
            max(struct({columns_of(spec.order_columns)})) AS {HELD},
            max(greatest({EVENT_TIME}, {r.SOURCE_TIME})) AS {HELD_TIME}
        FROM (
            SELECT /*+ {hints} */ t.*
            FROM frazil_deletes AS t LEFT SEMI JOIN frazil_touched AS k ON {same(spec.keys, "t", "k")}
        )
        GROUP BY {columns_of(spec.keys)}""",
        frazil_deletes=deletes,
        frazil_touched=touched,
    )


def with_prior_order(new: DataFrame, held: DataFrame, dead: DataFrame, spec: FoldSpec) -> DataFrame:
    """Join each change with the newest order already held for its key.

    Args:
        new: n change rows.
        held: from :func:`held_order`; rows older than all of ``new`` may be missing.
        dead: from :func:`tombstones`; rows older than all of ``new`` may be missing.
        spec: the table's parts.

    Returns:
        n rows: those of ``new`` with ``_cdc_held`` and ``_cdc_held_time``, the greater of both sides or NULL.
    """
    return query_frames(
        f"""
        SELECT /*+ BROADCAST(h, d) */
            n.*,
            greatest(h.{HELD}, d.{HELD}) AS {HELD},
            greatest(h.{HELD_TIME}, d.{HELD_TIME}) AS {HELD_TIME}
        FROM frazil_new AS n
        LEFT JOIN frazil_held AS h ON {same(spec.keys, "n", "h")}
        LEFT JOIN frazil_dead AS d ON {same(spec.keys, "n", "d")}""",
        frazil_new=new,
        frazil_held=held,
        frazil_dead=dead,
    )


def match_target(folded: DataFrame, found: DataFrame, spec: FoldSpec) -> DataFrame:
    """Join each folded key with two flags: whether the mart has a row of it, and whether that row is live.

    Args:
        folded: n rows, one per key.
        found: from :func:`target_rows`.
        spec: the table's parts.

    Returns:
        n rows: those of ``folded`` with ``_cdc_in_target`` and ``_cdc_lived``.
    """
    return query_frames(
        f"""
        SELECT /*+ BROADCAST(f) */
            n.*, f.{IN_TARGET} IS NOT NULL AS {IN_TARGET}, coalesce(f.{LIVED}, false) AS {LIVED}
        FROM frazil_folded AS n LEFT JOIN frazil_found AS f ON {same(spec.keys, "n", "f")}""",
        frazil_folded=folded,
        frazil_found=found,
    )


def is_late(spec: FoldSpec) -> str:
    """Write the condition that a change is late: not newer than the newest change of its key so far."""
    return f"coalesce(struct({columns_of(spec.order_columns)}) <= {HELD}, false)"


def is_not_after(spec: FoldSpec, newest_time: int | None) -> str:
    """Write the condition that a change's event time is not after all held event times.

    History can append a version only at the end of a key's time. If event times are not the first part of the order,
    no held row has that end. A change after ``newest_time``, the greatest event time of the table in microseconds, is
    certainly after it; every other change of a known key meets the condition.
    """
    known = f"{HELD} IS NOT NULL"
    if spec.times_follow_order:
        return f"coalesce({EVENT_TIME} <= {HELD_TIME}, {known})"
    if newest_time is None:
        return known
    return f"({known} AND coalesce({EVENT_TIME} <= timestamp_micros({newest_time}), true))"


def incomplete_sql(spec: FoldSpec) -> str:
    """Write the condition that an upsert does not carry every column, so that older changes fill it."""
    oldest = max(spec.since.values(), default=0)
    return f"({IS_UPSERT} AND ({r.KNOWN} IS NOT NULL OR {r.BATCH} < {oldest}))"


def filter_keys(changes: DataFrame, keys: DataFrame, names: Sequence[str], *, among: bool = True) -> DataFrame:
    """Keep the rows whose key is among some keys.

    Args:
        changes: the rows.
        keys: rows with the keys, repeats allowed; broadcast.
        names: the key columns.
        among: False keeps the other rows instead.
    """
    return query_frames(
        f"""
        SELECT /*+ BROADCAST(k) */ t.* FROM frazil_all AS t
        LEFT {"SEMI" if among else "ANTI"} JOIN frazil_some AS k ON {same(names, "t", "k")}""",
        frazil_all=changes,
        frazil_some=keys,
    )


LATE: Final = "_cdc_late"
"""Number of late changes of the key."""
RECOMPUTE: Final = "_cdc_recompute"
"""Whether the key's rows must be recomputed from all its changes."""
SUPERSEDED: Final = "_cdc_superseded"
"""Whether all its changes are late."""
IS_LIVE: Final = "_cdc_is_live"
"""Whether its newest change is an upsert."""
DELETE_ONLY: Final = "_cdc_delete_only"
"""Whether all its changes are deletes."""

KINDS: Final = (RECOMPUTE, SUPERSEDED, IS_LIVE, DELETE_ONLY, IN_TARGET, LIVED)
"""The boolean columns, by which keys are counted."""

REPLACED: Final = f"({RECOMPUTE} OR ({IN_TARGET} AND NOT {SUPERSEDED}))"
"""SQL condition of a folded key whose rows in the mart are replaced."""


def verdict_sql(
    mart: Current | History, spec: FoldSpec, *, compares: bool, newest_time: int | None = None
) -> list[str]:
    """Write the aggregates ``_cdc_late``, ``_cdc_recompute`` and ``_cdc_superseded`` of a key's changes.

    Args:
        mart: the mart.
        spec: the table's parts.
        compares: the changes have the columns of :func:`frazil.marts.with_prior_order`; else no change is late.
        newest_time: greatest event time of earlier batches in microseconds; None if unknown.
    """
    late_sql = is_late(spec) if compares else "false"
    recompute = f"bool_or({late_sql})"
    if isinstance(mart, History) and mart.bitemporal:
        recompute = "true"  # a bitemporal history keeps all earlier rows
    elif isinstance(mart, History) and compares:
        recompute = f"bool_or({is_not_after(spec, newest_time)} OR {late_sql})"
    elif isinstance(mart, Current) and mart.deletes == "hard" and not spec.fills:
        # An upsert with every column needs no older change, so a late change is dropped.
        recompute = "false"
    return [f"count_if({late_sql}) AS {LATE}", f"{recompute} AS {RECOMPUTE}", f"bool_and({late_sql}) AS {SUPERSEDED}"]


def replaced_sql(mart: Current | History) -> str:
    """Write the condition that row ``t`` of a mart is replaced, for a key ``k`` with ``REPLACED``."""
    return f"(k.{RECOMPUTE} OR t.is_current)" if isinstance(mart, History) else "true"
