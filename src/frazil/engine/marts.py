"""Bring one mart level with silver, in one commit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from frazil.engine.alter import match_layout
from frazil.engine.batch_delta import AT_FILE, AT_POS, increment
from frazil.engine.batch_stats import all_changes, batch_stats, newest
from frazil.engine.compact import compact, is_due, small_bytes
from frazil.engine.report import MartReport
from frazil.engine.write_delta import apply
from frazil.failpoints import failpoint
from frazil.lake.commit import replace_table
from frazil.lake.row_delta import takes_row_deltas
from frazil.lake.tables import TableLayout, ensure, fits
from frazil.marts.all_rows import all_rows, multi_change_keys, single_change_rows
from frazil.marts.counts import compared, late_changes, living
from frazil.marts.fold_spec import with_event_time
from frazil.marts.late import filter_keys
from frazil.marts.layout import fold_spec, mart_columns, mart_layout, mart_properties, partitioning
from frazil.plan.apply_strategy import BROADCAST_CHANGES, Strategy, choose_strategy
from frazil.silver.contract import declared_mart, settings
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.engine.table_run import TableRun
    from frazil.lake.commit import TableTransaction
    from frazil.lake.heads import Head
    from frazil.marts.fold_spec import FoldSpec
    from frazil.silver.contract import Contract
    from frazil.spec import Current, History
    from frazil.steps import UpdateMart


_UNPACKED: Final = 4
"""How many times larger rows are in memory than in their files, about."""


def update_mart(context: TableRun, step: UpdateMart, contract: Contract) -> MartReport:
    """Apply the changes after the mart's bookmark; give what that did.

    A mart without rows, and one that is rebuilt, is made from all changes at once; otherwise what is new is applied,
    in one of the ways of :mod:`frazil.plan.apply_strategy`.
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
    spec = fold_spec(contract, mart, since=silver.get("since", {}), partial=bool(silver.get("partial")))
    report = MartReport(mart=step.mart, batch=step.upto)
    chosen: Strategy = "recompute"
    stats, rows = None, int(base.summary.get("total-records", 0))
    if not step.rebuild and step.after > 0:
        stats = batch_stats(context, step, spec, contract, before=base.bookmark.get("newest"))
        on_disk = int(base.summary.get("total-files-size", 0))
        # Of each key one row of the mart may come along, with values that the batch does not have.
        held = stats.size_bytes + stats.changes * _UNPACKED * on_disk // max(rows, 1)
        chosen = choose_strategy(
            stats.changes, held, rows, takes_row_deltas=takes_row_deltas(spark, quote(*path), deletes=True)
        )
    until = newest(context, step.upto, contract) if stats is None else stats.newest
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
        published = _replaced(context, mart, layout, bookmark, _whole(context, step, mart, spec))
        _count_replaced(context, path, base, spec, report)
        return _finished(report, published, began, base, "recompute")
    with context.transaction(path, bookmark) as batch:
        if stats is None or chosen == "recompute":
            whole = _whole(context, step, mart, spec)
            batch.note(strategy="load" if base.snapshot_id is None else "recompute")
            batch.append(whole) if base.snapshot_id is None else batch.replace(whole)
            _count_whole(context, batch, base, spec, report, all_newer=stats is not None and stats.all_newer)
        else:
            target = with_event_time(spark.table(quote(*path)), spec, f"_file AS {AT_FILE}", f"_pos AS {AT_POS}")
            mine = increment(context, step, mart=mart, spec=spec, target=target, stats=stats, rows=rows)
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


def _finished(report: MartReport, published: Head, began: float, base: Head, chosen: Strategy) -> MartReport:
    report.rows = int(published.summary.get("added-records", 0))
    report.strategy = "load" if base.snapshot_id is None else chosen
    report.seconds = time.monotonic() - began
    return report


def _fits(context: TableRun, layout: TableLayout, base: Head) -> bool:
    """Tell whether a mart's table can hold what is declared as it is, or with columns added or widened."""
    before = base.bookmark.get("layout", {}).get("partition_by", [*layout.partition_by])
    return bool(before == [*layout.partition_by]) and fits(context.spark, layout)


def _replaced(
    context: TableRun, mart: Current | History, layout: TableLayout, bookmark: Mapping[str, object], rows: DataFrame
) -> Head:
    """Replace a mart's table whose columns or partitions are other than declared, with its rows in one commit."""
    path, before = layout.path, context.head(layout.path).bookmark.get("layout", {})
    failpoint("mart.before_publish")
    context.heads[path] = replace_table(
        context.spark, layout, context.head(path), bookmark, rows, run_id=context.run_id
    )
    failpoint("mart.after_publish")
    match_layout(context, mart, before)
    return context.heads[path]


def _whole(context: TableRun, step: UpdateMart, mart: Current | History, spec: FoldSpec) -> DataFrame:
    """All rows of a mart; only keys with more than one change are folded, where they are not many.

    A full load has one record a key: its rows go straight through and keep the order of their files.
    """
    changes = all_changes(context, spec)
    some = context.keep(("multi_change_keys", step.upto, spec.fills), lambda: multi_change_keys(changes, spec))
    if some.count() > BROADCAST_CHANGES:
        return all_rows(mart, changes, spec)
    if some.isEmpty():
        return single_change_rows(mart, changes, spec)
    sole, others = (filter_keys(changes, some, spec.keys, among=among) for among in (False, True))
    return single_change_rows(mart, sole, spec).unionByName(all_rows(mart, others, spec))


def _count_replaced(context: TableRun, path: tuple[str, ...], base: Head, spec: FoldSpec, report: MartReport) -> None:
    """Count what has become of a mart whose table was replaced; where its keys were others, all its rows came."""
    spark, name = context.spark, quote(*path)
    after = living(spark.table(name), spec)
    before = None
    if base.snapshot_id is not None:
        before = spark.sql(f"SELECT * FROM {name} VERSION AS OF {base.snapshot_id}")
    if before is None or not {*spec.keys, *spec.order_columns} <= {*before.columns}:
        report.inserted = after.count()
        return
    [counts] = compared(living(before, spec), after, spec).collect()
    report.inserted, report.updated, report.deleted = counts


def _count_whole(
    context: TableRun, batch: TableTransaction, base: Head, spec: FoldSpec, report: MartReport, *, all_newer: bool
) -> None:
    """Count what has become of a mart that was written whole, before that is published.

    Changes are late that came after the mart's bookmark, unless they follow all before.

    Cost: of a first load a count of its living rows. Of a rebuild a shuffle of the keys of all living rows, before and
    after, and, where changes may be late, of those of all changes, once for all marts.
    """
    after = living(context.spark.table(batch.branch), spec)
    if base.snapshot_id is None:
        report.inserted = after.count()
        return
    [counts] = compared(living(context.spark.table(batch.table), spec), after, spec).collect()
    report.inserted, report.updated, report.deleted = counts
    if base.batch < report.batch and not all_newer:
        span, changes = (base.batch, report.batch), all_changes(context, spec)
        [[report.late]] = context.keep(("late", *span), lambda: late_changes(changes, spec, after=span[0])).collect()
