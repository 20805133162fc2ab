"""Limits of a batch: its bad records, which go to quarantine, its late changes, and the deletes of its snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.failpoints import failpoint
from frazil.marts.layout import EVENT_TIME, IS_UPSERT, FoldSpec, columns_of, fold_spec, same, with_event_time
from frazil.marts.query import query_frames
from frazil.runner.batch.batch_stats import NUMBERED, Newest
from frazil.runner.batch.bronze_records import IS_CORRECTED, corrections_after
from frazil.silver.changes import PROBLEM, quarantined, rows_of_batches
from frazil.sources.capture import verify_deletes
from frazil.spec.amount import counted
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import Table
    from frazil.steps import Normalize

USUAL_FRACTION: Final = 0.1
"""Share of bad records in a batch that is allowed without ``max_bad_fraction``."""
FEWEST_RECORDS: Final = 100
"""Smaller batches have no default limit, unless all records so far are bad."""
_NEVER_TOO_MANY: Final = int(USUAL_FRACTION * FEWEST_RECORDS)
_REASONS_SHOWN: Final = 3


class TooManyBadRowsError(ContractError):
    """A batch has more bad records than the table's limit."""

    code = "FZ401"


def bad_by_batch(context: TableRun, rows: DataFrame, bad: int) -> dict[int, dict[str, int]]:
    """Count good and bad records of every batch of a rebuild.

    Args:
        context: the table's part of the run.
        rows: change rows of all batches.
        bad: total number of bad records.

    Returns:
        Batch -> {"good": n, "bad": n}; empty if the total is within the limit of every single batch.
    """
    table = context.table
    if not bad or (table.max_bad_rows is None and table.max_bad_fraction is None and bad <= _NEVER_TOO_MANY):
        return {}
    is_good = F.col(PROBLEM).isNull()
    counted = rows.groupBy(r.BATCH).agg(F.count_if(is_good).alias("good"), F.count_if(~is_good).alias("bad"))
    return {row[r.BATCH]: {"good": row["good"], "bad": row["bad"]} for row in counted.collect()}


def check_limits(
    context: TableRun, by_batch: Mapping[int, Mapping[str, Any]], rows: DataFrame | None, *, is_first: bool
) -> None:
    """Refuse more bad records than the table allows, and by default a table without good records.

    Args:
        context: the table's part of the run.
        by_batch: good and bad records by batch number.
        is_first: the batches have all records of the table so far.
        rows: change rows, including bad ones, to list the reasons in the error; None to omit the reasons.

    Raises:
        TooManyBadRowsError: a batch exceeds its limit.
    """
    table = context.table
    has_none = is_first and not any(seen["good"] for seen in by_batch.values())
    for number, seen in by_batch.items():
        bad = int(seen["bad"])
        total = bad + int(seen["good"])
        over_rows = table.max_bad_rows is not None and bad > table.max_bad_rows
        share = table.max_bad_fraction
        if share is None:
            share = USUAL_FRACTION if total >= FEWEST_RECORDS or has_none else 1.0
        if over_rows or bad > share * total:
            limit = f"max_bad_rows {table.max_bad_rows}" if over_rows else f"max_bad_fraction {share:g}"
            raise TooManyBadRowsError(
                f"table {table.name!r}: {bad:,} of {counted(total, 'record')} of batch {number} "
                f"{'is' if bad == 1 else 'are'} bad, {limit} allows fewer; "
                f"they are in bronze, nothing of the batch is visible past it{_why(rows)}",
                hint=_hint(table),
            )


def _hint(table: Table) -> str:
    usual = ["give the column a type that its values have, or string", "correct the rule"]
    ways = [*usual, *table.source.ways_out_of_bad_rows]
    return f"{', '.join(ways)}, or raise the limit; and run again"


def _why(rows: DataFrame | None) -> str:
    """Return the most frequent reasons with the number of records of each."""
    if rows is None:
        return ""
    reason = F.concat_ws(": ", F.col(f"{PROBLEM}.column"), F.col(f"{PROBLEM}.reason"))
    bad = rows.where(F.col(PROBLEM).isNotNull()).groupBy(F.col(f"{PROBLEM}.rule").alias("rule"), f"{PROBLEM}.column")
    found = bad.agg(F.count("*").alias("count"), F.min(reason).alias("reason"))
    most = found.orderBy(F.desc("count"), "reason").limit(_REASONS_SHOWN).collect()
    return "".join(f"; {row['count']:,} with {row['reason']}" for row in most)


def corrected_places(context: TableRun, step: Normalize) -> DataFrame | None:
    """Return the places of records that a step's batches correct; None without corrections."""
    if not _is_replay(context, step):
        return None
    bronze = context.spark.table(quote(*context.bronze)).where(IS_CORRECTED)
    return rows_of_batches(bronze, step.after, step.upto).select(r.FILE, r.ROW).distinct()


def write_quarantine(context: TableRun, step: Normalize, rows: DataFrame, said: Mapping[str, str]) -> None:
    """Write the change rows that have a problem to quarantine; idempotent after a killed run.

    Args:
        context: the table's part of the run.
        step: the batches.
        rows: change rows, good and bad ones.
        said: reason of a problem -> text to store instead.
    """
    base = context.head(context.quarantine, rebuilt=step.rebuild)
    if base.batch >= step.upto and not step.rebuild:
        return
    with context.transaction(context.quarantine, context.bookmark("quarantine", step.upto)) as batch:
        if step.rebuild:
            batch.replace(quarantined(rows, said))
        else:
            # A run killed after this commit leaves quarantine ahead of silver.
            new = quarantined(rows_of_batches(rows, max(step.after, base.batch), step.upto), said)
            if (corrected := corrected_places(context, step)) is None:
                batch.append(new)
            else:
                kept = context.spark.table(batch.table).join(F.broadcast(corrected), [r.FILE, r.ROW], "left_anti")
                batch.replace(kept.select(new.columns).unionByName(new))
        failpoint("quarantine.before_publish")
        batch.publish()
    failpoint("quarantine.after_publish")


ALLOWED_LATE: Final = "allowed_late"
"""Key of silver's bookmark."""
MANY: Final = 100
"""Number of late changes that every batch may have."""


class LateChangesError(ContractError):
    """Most changes of a batch are older, in order, than the earlier changes of their keys."""

    code = "FZ413"


def is_limited(context: TableRun, step: Normalize) -> bool:
    """Return whether the limit applies to a step; it does not for a first load, rebuild or replay."""
    is_first = step.after == 0 or step.rebuild
    return not is_first and not _is_replay(context, step) and context.table.max_late_fraction < 1


def _is_replay(context: TableRun, step: Normalize) -> bool:
    """Return whether a step's batches have corrections."""
    return any(number <= step.upto for number in corrections_after(context.head(context.bronze).bookmark, step.after))


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


Place: TypeAlias = tuple[str, int]

_HINT: Final = (
    "is it whole, and of the right table? If so, raise max_delete_fraction in the source, run again, and set it back; "
    "if not, name it in leave_out of the source, and run again"
)


def verify_snapshots(
    context: TableRun, contract: Contract, new: Collection[Place], every: Collection[Place], changes: str
) -> None:
    """Refuse a snapshot that would delete more rows than the declaration allows.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        new: places of the truncates of this batch. A truncate without a copy of the table after it has no limit.
        every: places of all truncates.
        changes: SELECT of keys, ``_place`` and class of all changes.

    Raises:
        TooManyDeletesError: a snapshot exceeds the limit.

    Cost: for each snapshot one Spark job over the keys of silver.
    """
    source = context.table.source
    for one in new:
        limit = source.delete_limit(one[0])
        if limit is None:
            continue
        since = max((other for other in every if other < one), default=None)
        keys = ", ".join(map(quote, contract.keys))
        is_upsert = f"{r.CLASS} = {literal(r.UPSERT)}"
        is_living = "coalesce(_last._is_upsert, false)"
        if since is not None:
            # Older changes are already void.
            is_living += f" AND _last._place > {place_sql(*since)}"
        is_gone = f"{is_living} AND NOT _stays"
        seen = context.spark.sql(f"""SELECT count_if({is_living}) AS living, count_if({is_gone}) AS gone
            FROM (SELECT max(CASE WHEN _place < {place_sql(*one)}
                    THEN struct(_place, {is_upsert} AS _is_upsert) END) AS _last,
                bool_or({is_upsert} AND _place.{r.POSITION} = {literal(one[0])}) AS _stays
                FROM ({changes}) GROUP BY {keys})""").first()
        if seen is not None:
            snapshot = f"table {context.table.name!r}: snapshot {one[0].rpartition('/')[2]}"
            verify_deletes(snapshot, seen["living"], seen["gone"], limit, of="the table at that time", hint=_HINT)


def place_sql(position: str, row: int) -> str:
    """Return SQL for the place of a change: a struct whose order is the order of places."""
    return f"struct({literal(position)} AS {r.POSITION}, CAST({int(row)} AS bigint) AS {r.ROW})"
