"""Bring one mart level with silver."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import FrazilError
from frazil.failpoints import failpoint
from frazil.lake.commit import Batch
from frazil.lake.heads import head
from frazil.lake.tables import TableLayout, ensure
from frazil.marts import late
from frazil.marts.current import hard, soft
from frazil.marts.fold import NEWEST, VALUES, fill, newest
from frazil.marts.history import BASE, versions
from frazil.marts.layout import mart_columns, partitioning, shape_of
from frazil.marts.shape import EVENT_TIME, columns_of, with_event_time
from frazil.engine.report import MartReport
from frazil.silver.contract import declared_mart
from frazil.spec import Current, History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from frazil.lake.heads import Head
    from frazil.marts.shape import Shape
    from frazil.engine.context import Context
    from frazil.silver.contract import Contract
    from frazil.steps import UpdateMart

_KEYS_VIEW = "frazil_keys"


def update_mart(context: Context, step: UpdateMart, contract: Contract) -> None:
    """Apply the changes after the mart's bookmark, in one commit.

    A mart without rows, and one that is rebuilt, is made from all changes at once. Otherwise rows of touched
    keys are deleted against a broadcast and the new ones appended, on a branch: the target is never shuffled.
    Keys with late or incomplete changes are folded anew from all their changes.
    """
    began = time.monotonic()
    spark, table = context.spark, context.table
    mart = next(mart for mart in table.marts if table.mart_name(mart) == step.mart)
    context.tell(f"apply to {step.mart}")
    path = context.mart_path(mart)
    properties = {"format-version": str(mart.format_version), **mart.properties}
    ensure(
        spark,
        TableLayout(
            path=path,
            columns=mart_columns(mart, contract),
            partition_by=partitioning(mart),
            sort_by=mart.sort_by,
            properties=properties,
        ),
    )
    base = head(spark, quote(*path))
    silver = head(spark, quote(*context.changes)).bookmark
    shape = shape_of(contract, mart, since=silver.get("since", {}), partial=bool(silver.get("partial")))
    report = MartReport(mart=step.mart, batch=step.upto)
    failpoint("mart.before_write")
    with ExitStack() as cached:
        changes = with_event_time(
            spark.table(quote(*context.changes)).where(F.col(r.BATCH) <= step.upto), shape
        )
        with Batch(spark, path, base, context.bookmark(step.upto, declared=declared_mart(table, mart))) as batch:
            if step.rebuild or step.after == 0:
                rows = _all_rows(mart, changes, shape)
                report.strategy = "rebuild" if step.rebuild and base.bookmark else "load"
                batch.replace(rows) if base.bookmark else batch.append(rows)
            else:
                report.strategy = "split"
                _split(context, mart, changes, shape, step, batch, report, cached)
            failpoint("mart.before_publish")
            published = batch.publish()
    failpoint("mart.after_publish")
    report.rows = int(published.summary.get("added-records", 0))
    if report.strategy != "split":
        report.inserted = report.rows
    report.seconds = time.monotonic() - began
    context.report.marts.append(report)
    if isinstance(mart, Current) and mart.live_view:
        _live_view(context, mart, path)


def _all_rows(mart: Current | History, changes: DataFrame, shape: Shape) -> DataFrame:
    complete = fill(changes, shape) if shape.partial or shape.since else changes
    match mart:
        case History():
            return versions(complete.withColumn(BASE, F.lit(False)), shape, mart.deletes)
        case Current(deletes="soft"):
            return soft(newest(complete, shape), shape)
        case Current():
            return hard(newest(complete, shape), shape)


def _split(
    context: Context,
    mart: Current | History,
    changes: DataFrame,
    shape: Shape,
    step: UpdateMart,
    batch: Batch,
    report: MartReport,
    cached: ExitStack,
) -> None:
    """Delete what the batch replaces, append what it brings."""
    keys = list(shape.keys)
    new = _keep(changes.where(F.col(r.BATCH) > step.after), cached)
    first = shape.sequence_by[0] if shape.sequence_by else None
    floor = new.agg(F.count("*"), F.min(quote(first)) if first else F.lit(None)).first()
    if floor is None or floor[0] == 0:
        batch.append(_nothing(context, batch))
        return
    deletes = changes.where((F.col(r.CLASS) == r.DELETE) & (F.col(r.BATCH) <= step.after))
    if first is not None and (shape.times_follow_order or not isinstance(mart, History)):
        # Only tombstones as new as the batch can make it late; older ones are pruned by their files' statistics.
        deletes = deletes.where(F.col(quote(first)) >= F.lit(floor[1]))
    # Read at main: the branch will have lost rows by the time the new ones are computed.
    target = with_event_time(context.spark.table(batch.table), shape)
    heads = target.where("is_current") if isinstance(mart, History) else target
    touched = _keep(new.select(*columns_of(shape.keys)).distinct(), cached)
    held = _keep(late.held(heads, deletes, touched, shape), cached)

    joined = new.join(F.broadcast(held), keys, "left")
    folded = _keep(newest(joined, shape, *_verdicts(mart, shape)), cached)
    counts = _count(folded, shape)
    _tell_counts(report, counts)
    slow_keys = folded.where("_slow") if counts["slow"] else None
    # A hard delete needs no more than the newest change, so a late key simply drops out.
    fast = folded.where("NOT _slow AND NOT _stale")

    if isinstance(mart, History):
        rows = _new_versions(mart, heads, new, changes, folded, counts, shape)
        # Without slow keys the open versions are a partition of their own, and only that is read.
        condition = (
            _in(keys, "k._slow OR (k._in_target AND t.is_current)")
            if counts["slow"]
            else f"t.is_current AND {_in(keys, 'k._in_target')}"
        )
    else:
        rows = _new_states(mart, target, changes, fast, slow_keys, counts, shape)
        condition = _in(keys, "(k._in_target AND NOT k._stale) OR k._slow")
    if counts["in_target"] or counts["slow"]:
        folded.createOrReplaceTempView(_KEYS_VIEW)
        batch.delete(condition)
    failpoint("mart.after_delete")
    batch.append(rows)


def _verdicts(mart: Current | History, shape: Shape) -> list[Column]:
    """Aggregates that decide per key how its changes are applied."""
    late_here = late.is_late(shape)
    incomplete = F.bool_or(late.is_incomplete(shape))
    in_target = F.coalesce(F.first(late.IN_TARGET), F.lit(False))
    stale = F.lit(False)
    match mart:
        case History():
            slow = F.bool_or(late.is_not_after(shape) | late_here) | incomplete
        case Current(deletes="soft"):
            slow = F.bool_or(late_here) | incomplete
        case Current() if shape.partial or shape.since:
            slow = F.bool_or(late_here) | incomplete
        case Current():
            slow = F.lit(False)
            stale = F.bool_and(late_here)
    return [
        F.count_if(late_here).alias("_late"),
        in_target.alias("_in_target"),
        slow.alias("_slow"),
        stale.alias("_stale"),
    ]


def _count(folded: DataFrame, shape: Shape) -> dict[str, int]:
    upsert = F.col(f"{NEWEST}.{r.CLASS}") == r.UPSERT
    applied = ~F.col("_stale")
    row = folded.agg(
        F.sum("_late").alias("late"),
        F.count_if(F.col("_slow")).alias("slow"),
        F.count_if(F.col("_in_target")).alias("in_target"),
        F.count_if(applied & upsert & ~F.col("_in_target")).alias("inserted"),
        F.count_if(applied & upsert & F.col("_in_target")).alias("updated"),
        F.count_if(applied & ~upsert & F.col("_in_target")).alias("deleted"),
        F.count_if(~upsert & F.col(VALUES).isNull() & F.col("_in_target") & ~F.col("_slow")).alias("bare_deletes"),
    ).first()
    if row is None:
        raise FrazilError(f"no counts for the keys {shape.keys}")
    return {name: int(row[name] or 0) for name in row.asDict()}


def _tell_counts(report: MartReport, counts: dict[str, int]) -> None:
    report.late = counts["late"]
    report.inserted, report.updated, report.deleted = counts["inserted"], counts["updated"], counts["deleted"]


def _new_states(
    mart: Current,
    target: DataFrame,
    changes: DataFrame,
    fast: DataFrame,
    slow_keys: DataFrame | None,
    counts: dict[str, int],
    shape: Shape,
) -> DataFrame:
    shown = soft if mart.deletes == "soft" else hard
    if mart.deletes == "soft" and counts["bare_deletes"]:
        last_known = target.select(*columns_of(shape.keys), F.struct(*columns_of(shape.columns)).alias("_row"))
        bare = fast.where(f"_in_target AND {VALUES} IS NULL")
        rows = last_known.join(F.broadcast(bare.drop(VALUES)), list(shape.keys)).withColumnRenamed("_row", VALUES)
        fast = fast.where(f"{VALUES} IS NOT NULL").unionByName(rows, allowMissingColumns=True)
    rows = shown(fast, shape)
    if slow_keys is not None:
        rows = rows.unionByName(_all_rows(mart, late.of_keys(changes, slow_keys, shape.keys), shape))
    return rows


def _new_versions(
    mart: History,
    heads: DataFrame,
    new: DataFrame,
    changes: DataFrame,
    folded: DataFrame,
    counts: dict[str, int],
    shape: Shape,
) -> DataFrame:
    """Versions of all touched keys: the open one and what follows, or for slow keys all of them."""
    fast = folded.where("NOT _slow")
    columns = [quote(name) for name in new.columns]
    held = late.of_keys(heads, fast.where("_in_target"), shape.keys).select(
        *columns_of(shape.columns),
        F.when(F.col("is_deleted"), r.DELETE).otherwise(r.UPSERT).alias(r.CLASS),
        r.POSITION,
        r.ROW,
        F.col("valid_from").alias(EVENT_TIME),
        F.lit(True).alias(BASE),
    )
    parts = late.of_keys(new, fast, shape.keys) if counts["slow"] else new
    rows = parts.withColumn(BASE, F.lit(False)).unionByName(held, allowMissingColumns=True)
    if counts["slow"]:
        slow = late.of_keys(changes, folded.where("_slow"), shape.keys).select(*columns)
        complete = fill(slow, shape) if shape.partial or shape.since else slow
        rows = rows.unionByName(complete.withColumn(BASE, F.lit(False)), allowMissingColumns=True)
    return versions(rows, shape, mart.deletes)


def _in(keys: list[str], which: str) -> str:
    """SQL that tells of a row ``t`` whether its key is among the touched ones for which ``which`` holds."""
    same = " AND ".join(f"k.{quote(key)} = t.{quote(key)}" for key in keys)
    return f"EXISTS (SELECT 1 FROM {_KEYS_VIEW} AS k WHERE ({which}) AND {same})"


def _keep(rows: DataFrame, cached: ExitStack) -> DataFrame:
    """Compute rows once, however often they are read, until the step ends."""
    kept = rows.persist()
    cached.callback(kept.unpersist)
    return kept


def _nothing(context: Context, batch: Batch) -> DataFrame:
    return context.spark.table(batch.table).limit(0)


def _live_view(context: Context, mart: Current, path: tuple[str, ...]) -> None:
    """Keep the view over a soft table that leaves its deleted rows out."""
    view = quote(*path[:-1], str(mart.live_view))
    if not context.spark.catalog.tableExists(view):
        names = [name for name in context.spark.table(quote(*path)).columns if name not in ("is_deleted", "deleted_at")]
        columns = ", ".join(map(quote, names))
        context.spark.sql(f"CREATE VIEW {view} AS SELECT {columns} FROM {quote(*path)} WHERE NOT is_deleted")
