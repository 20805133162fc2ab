"""Limit the late changes of a batch: many of them mean that the declared order contradicts the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.marts.fold_spec import EVENT_TIME, IS_UPSERT, FoldSpec, columns_of, same, with_event_time
from frazil.marts.layout import fold_spec
from frazil.marts.query import query_frames
from frazil.runner.batch.newest import NUMBERED, Newest
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import Normalize

ALLOWED_LATE: Final = "allowed_late"
"""Key of silver's bookmark."""
MANY: Final = 100
"""Number of late changes that every batch may have."""


class LateChangesError(ContractError):
    """Most changes of a batch are older, in order, than the earlier changes of their keys."""

    code = "FZ413"


def is_limited(context: TableRun, step: Normalize) -> bool:
    """Return whether the limit applies to a step; it does not for a first load, rebuild or replay."""
    corrected = context.head(context.bronze).bookmark.get("corrections", ())
    is_replay = any(step.after < number <= step.upto for number in corrected)
    return step.after > 0 and not step.rebuild and not is_replay and context.table.max_late_fraction < 1


def late_bookmark(context: TableRun, step: Normalize, base: Mapping[str, Any]) -> dict[str, int]:
    """Return the entry of silver's bookmark: the newest batch without the limit.

    Args:
        context: the table's part of the run.
        step: the batches.
        base: bookmark of silver before the step.
    """
    allowed = step.upto if context.table.max_late_fraction == 1 else int(base.get(ALLOWED_LATE, 0))
    return {ALLOWED_LATE: allowed} if allowed else {}


def known_newest(context: TableRun) -> Newest:
    """Return the newest order and time in silver, from the bookmark of a mart at the same batch; empty without one."""
    batch = context.head(context.changes).batch
    heads = (context.head(made.path) for made in context.tables.marts)
    return next((Newest.in_bookmark(head.bookmark) for head in heads if head.batch == batch), Newest())


def count_behind(changes: pa.Table, contract: Contract, newest: Newest) -> int:
    """Count the changes that are not newer than all earlier ones, by the first part of the order.

    Args:
        changes: changes of the batch in the driver's memory.
        contract: the table's contract.
        newest: newest order and time of earlier changes.
    """
    name = contract.sequence_by[0] if contract.sequence_by else r.POSITION
    kind = next((column.type for column in contract.columns if column.name == name), "string")
    if newest.order is None or (contract.sequence_by and kind not in NUMBERED):
        return int(changes.num_rows)
    values = changes[name]
    if contract.sequence_by:
        values = values.cast("int32" if kind in {"int", "date"} else "int64").cast("int64")
    return int(changes.num_rows - (pc.sum(pc.greater(values, newest.order)).as_py() or 0))


def passes(context: TableRun, late: int, changes: int) -> bool:
    """Return whether the limit allows a number of late changes.

    Args:
        context: the table's part of the run.
        late: number of late changes.
        changes: number of all changes.
    """
    return late < MANY or late <= context.table.max_late_fraction * changes


def verify_not_late(context: TableRun, contract: Contract, new: DataFrame, *, few: bool) -> None:
    """Refuse a batch whose changes are mostly late.

    A change counts if its order is contradicted: it is older than the newest change of its key but comes after it in
    the source. If places of a server are the order, it counts if its time is not older. A repeated change does not
    count.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        new: changes that are not in silver yet.
        few: they are few enough to broadcast.

    Raises:
        LateChangesError: most changes are late.

    Cost: one Spark job over the keys, order and content of the changes of these keys.
    """
    spec = fold_spec(contract, None, since={}, partial=False)
    if not spec.sequence_by and not context.table.source.server_places:
        return
    silver = context.spark.table(quote(*context.changes))
    for seen in _counted(with_event_time(new, spec), with_event_time(silver, spec), spec, few=few).collect():
        changes, late = int(seen["changes"]), int(seen["late"])
        if not passes(context, late, changes):
            raise LateChangesError(
                f"table {context.table.name!r}: {late:,} of {changes:,} changes of batch {seen[r.BATCH]} come late: "
                f"they are older, by {', '.join(spec.sequence_by) or 'their places'}, than the earlier changes "
                "of their keys, and no other order confirms it; "
                "they are in bronze, nothing of the batch is visible past it",
                hint=_way_out(spec),
            )


def _counted(new: DataFrame, held: DataFrame, spec: FoldSpec, *, few: bool) -> DataFrame:
    """Count the changes of each batch, and the late ones that only the declared order calls late."""
    keys, order = columns_of(spec.keys), f"struct({columns_of((*spec.order_columns, EVENT_TIME))})"
    content = f"xxhash64({columns_of((*spec.columns, r.CLASS))})"
    new = new.selectExpr("*", f"{order} AS _cdc_at", f"{content} AS _cdc_content")
    hint = "/*+ BROADCAST(k) */ " if few else ""
    return query_frames(
        f"""
        WITH held AS (
            SELECT {hint}t.* FROM frazil_silver AS t LEFT SEMI JOIN frazil_new AS k ON {same(spec.keys, "t", "k")}
        ), newest AS (
            SELECT {keys}, max({order}) AS _cdc_held FROM held GROUP BY {keys}
        ), late AS (
            SELECT n.* FROM frazil_new AS n JOIN newest AS h ON {same(spec.keys, "n", "h")}
            WHERE n._cdc_at < h._cdc_held AND {_is_contradicted(spec)}
        ), counted AS (
            SELECT {hint}{r.BATCH}, count(*) AS late FROM late AS k LEFT ANTI JOIN
                (SELECT {keys}, {content} AS _cdc_content FROM held) AS h
                ON {same(spec.keys, "k", "h")} AND k._cdc_content = h._cdc_content
            GROUP BY {r.BATCH}
        )
        SELECT n.{r.BATCH}, count(*) AS changes, coalesce(max(c.late), 0) AS late
        FROM frazil_new AS n LEFT JOIN counted AS c ON n.{r.BATCH} = c.{r.BATCH}
        GROUP BY n.{r.BATCH}""",
        frazil_new=new,
        frazil_silver=held,
    )


def _is_contradicted(spec: FoldSpec) -> str:
    """Return SQL that is true if a change that is older by the order is not older by source place or time."""
    if not spec.sequence_by:
        return f"coalesce(n.{EVENT_TIME} >= h._cdc_held.{EVENT_TIME}, true)"
    place = "struct({0}." + r.POSITION + ", {0}." + r.ROW + ")"
    told = " AND ".join(f"n.{quote(name)} IS NOT NULL" for name in spec.sequence_by)
    return f"n.{IS_UPSERT} AND {told} AND {place.format('n')} > {place.format('h._cdc_held')}"


def _way_out(spec: FoldSpec) -> str:
    check = (
        "check that sequence_by names columns that grow with each change of a row"
        if spec.sequence_by
        else "if the source moved to another server, load the table again from there"
    )
    return f"{check}; if these changes are really old, set max_late_fraction: 1 in the table, run, and set it back"
