"""Bring one mart level with silver, in one commit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from frazil.engine.alter import match_layout
from frazil.engine.compact import compact, is_due, small_bytes
from frazil.engine.increment import AT_FILE, AT_POS, increment
from frazil.engine.report import MartReport
from frazil.engine.size import all_changes, newest, size_of
from frazil.engine.ways import apply
from frazil.failpoints import failpoint
from frazil.lake.commit import replace_table
from frazil.lake.row_delta import takes_row_deltas
from frazil.lake.tables import TableLayout, ensure, fits
from frazil.marts.all_rows import all_rows, crowded, sole_rows
from frazil.marts.counts import compared, late_changes, living
from frazil.marts.late import of_keys
from frazil.marts.layout import mart_columns, mart_layout, mart_properties, partitioning, shape_of
from frazil.marts.shape import with_event_time
from frazil.plan.way import BROADCAST_CHANGES, Way, way
from frazil.silver.contract import declared_mart, settings
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.engine.context import Context
    from frazil.lake.commit import Batch
    from frazil.lake.snapshot import TableSnapshot
    from frazil.marts.shape import Shape
    from frazil.silver.contract import Contract
    from frazil.spec import Current, History
    from frazil.steps import UpdateMart


_UNPACKED: Final = 4
"""How many times larger rows are in memory than in their files, about."""


def update_mart(context: Context, step: UpdateMart, contract: Contract) -> MartReport:
    """Apply the changes after the mart's bookmark; give what that did.

    A mart without rows, and one that is rebuilt, is made from all changes at once; otherwise what is new is applied,
    in one of the ways of :mod:`frazil.plan.way`.
    """
    began = time.monotonic()
    spark, table = context.spark, context.table
    mart = next(mart for mart in table.marts if table.mart_name(mart) == step.mart)
    context.tell(f"apply to {step.mart}")
    path = context.mart_path(mart)
    layout = TableLayout(
        path=path,
        columns=mart_columns(mart, contract),
        partition_by=partitioning(mart),
        sort_by=mart.sort_by,
        properties=mart_properties(mart),
    )
    base = context.head(path, rebuilt=step.rebuild)
    other = (step.rebuild or base.snapshot_id is None) and not _fits(context, layout, base)
    if not other:
        ensure(spark, layout)
        # Before the rows are written: a run that dies after its commit has nothing left to do.
        match_layout(context, mart, base.bookmark.get("layout", {}))
    silver = context.head(context.changes).bookmark
    shape = shape_of(contract, mart, since=silver.get("since", {}), partial=bool(silver.get("partial")))
    report = MartReport(mart=step.mart, batch=step.upto)
    chosen: Way = "rebuild"
    size, rows = None, int(base.summary.get("total-records", 0))
    if not step.rebuild and step.after > 0:
        size = size_of(context, step, shape, contract, before=base.bookmark.get("newest"))
        on_disk = int(base.summary.get("total-files-size", 0))
        # Of each key one row of the mart may come along, with values that the batch does not have.
        held = size.size_bytes + size.changes * _UNPACKED * on_disk // max(rows, 1)
        chosen = way(size.changes, held, rows, takes_row_deltas=takes_row_deltas(spark, quote(*path), deletes=True))
    until = newest(context, step.upto, contract) if size is None else size.newest
    bookmark = context.bookmark(
        "mart",
        step.upto,
        declared=declared_mart(table, mart),
        settings=settings(table, mart),
        layout=mart_layout(mart),
        newest=until,
    )
    failpoint("mart.before_write")
    if other:
        published = _replaced(context, mart, layout, bookmark, _whole(context, step, mart, shape))
        _count_replaced(context, path, base, shape, report)
        return _finished(report, published, began, base, "rebuild")
    with context.batch(path, bookmark) as batch:
        if size is None or chosen == "rebuild":
            whole = _whole(context, step, mart, shape)
            batch.note(strategy="load" if base.snapshot_id is None else "rebuild")
            batch.append(whole) if base.snapshot_id is None else batch.replace(whole)
            _count_whole(context, batch, base, shape, report, follows=size is not None and size.follows)
        else:
            target = with_event_time(spark.table(quote(*path)), shape, f"_file AS {AT_FILE}", f"_pos AS {AT_POS}")
            mine = increment(context, step, mart=mart, shape=shape, target=target, size=size, rows=rows)
            chosen, seen = apply(mine, batch, chosen)
            for name in ("late", "inserted", "updated", "deleted"):
                setattr(report, name, getattr(seen, name))
        failpoint("mart.before_publish")
        published = batch.publish()
    failpoint("mart.after_publish")
    if is_due(published, context.pipeline.upkeep, after=step.after, upto=step.upto):
        upkeep = context.pipeline.upkeep
        compact(spark, path, upkeep, smaller=small_bytes(upkeep, published))
        context.heads.pop(path)
        report.compacted = True
    return _finished(report, published, began, base, chosen)


def _finished(
    report: MartReport, published: TableSnapshot, began: float, base: TableSnapshot, chosen: Way
) -> MartReport:
    report.rows = int(published.summary.get("added-records", 0))
    report.strategy = "load" if base.snapshot_id is None else chosen
    report.seconds = time.monotonic() - began
    return report


def _fits(context: Context, layout: TableLayout, base: TableSnapshot) -> bool:
    """Tell whether a mart's table can hold what is declared as it is, or with columns added or widened."""
    before = base.bookmark.get("layout", {}).get("partition_by", [*layout.partition_by])
    return bool(before == [*layout.partition_by]) and fits(context.spark, layout)


def _replaced(
    context: Context, mart: Current | History, layout: TableLayout, bookmark: Mapping[str, object], rows: DataFrame
) -> TableSnapshot:
    """Replace a mart's table whose columns or partitions are other than declared, with its rows in one commit."""
    path, before = layout.path, context.head(layout.path).bookmark.get("layout", {})
    failpoint("mart.before_publish")
    context.heads[path] = replace_table(
        context.spark, layout, context.head(path), bookmark, rows, run_id=context.run_id
    )
    failpoint("mart.after_publish")
    match_layout(context, mart, before)
    return context.heads[path]


def _whole(context: Context, step: UpdateMart, mart: Current | History, shape: Shape) -> DataFrame:
    """All rows of a mart; only keys with more than one change are folded, where they are not many.

    A full load has one record a key: its rows go straight through and keep the order of their files.
    """
    changes = all_changes(context, shape)
    some = context.keep(("crowded", step.upto, shape.fills), lambda: crowded(changes, shape))
    if some.count() > BROADCAST_CHANGES:
        return all_rows(mart, changes, shape)
    if some.isEmpty():
        return sole_rows(mart, changes, shape)
    sole, others = (of_keys(changes, some, shape.keys, among=among) for among in (False, True))
    return sole_rows(mart, sole, shape).unionByName(all_rows(mart, others, shape))


def _count_replaced(
    context: Context, path: tuple[str, ...], base: TableSnapshot, shape: Shape, report: MartReport
) -> None:
    """Count what has become of a mart whose table was replaced; where its keys were others, all its rows came."""
    spark, name = context.spark, quote(*path)
    after = living(spark.table(name), shape)
    before = None
    if base.snapshot_id is not None:
        before = spark.sql(f"SELECT * FROM {name} VERSION AS OF {base.snapshot_id}")
    if before is None or not {*shape.keys, *shape.order_columns} <= {*before.columns}:
        report.inserted = after.count()
        return
    [counts] = compared(living(before, shape), after, shape).collect()
    report.inserted, report.updated, report.deleted = counts


def _count_whole(
    context: Context, batch: Batch, base: TableSnapshot, shape: Shape, report: MartReport, *, follows: bool
) -> None:
    """Count what has become of a mart that was written whole, before that is published.

    Changes are late that came after the mart's bookmark, unless they follow all before.

    Cost: of a first load a count of its living rows. Of a rebuild a shuffle of the keys of all living rows, before and
    after, and, where changes may be late, of those of all changes, once for all marts.
    """
    after = living(context.spark.table(batch.branch), shape)
    if base.snapshot_id is None:
        report.inserted = after.count()
        return
    [counts] = compared(living(context.spark.table(batch.table), shape), after, shape).collect()
    report.inserted, report.updated, report.deleted = counts
    if base.batch < report.batch and not follows:
        span, changes = (base.batch, report.batch), all_changes(context, shape)
        [[report.late]] = context.keep(("late", *span), lambda: late_changes(changes, shape, after=span[0])).collect()
