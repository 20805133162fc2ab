"""Bring one mart level with silver, in one commit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from frazil.engine.compact import compact, is_due, small_bytes
from frazil.engine.increment import AT_FILE, AT_POS, increment
from frazil.engine.report import MartReport
from frazil.engine.size import all_changes, newest, size_of
from frazil.engine.ways import apply
from frazil.failpoints import failpoint
from frazil.lake.row_delta import takes_row_deltas
from frazil.lake.tables import TableLayout, ensure
from frazil.marts.all_rows import all_rows, crowded, sole_rows
from frazil.marts.late import of_keys
from frazil.marts.layout import mart_columns, mart_properties, partitioning, shape_of
from frazil.marts.shape import with_event_time
from frazil.plan.way import BROADCAST_CHANGES, Way, way
from frazil.silver.contract import declared_mart
from frazil.spec import Current, History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.engine.context import Context
    from frazil.marts.shape import Shape
    from frazil.silver.contract import Contract
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
    ensure(
        spark,
        TableLayout(
            path=path,
            columns=mart_columns(mart, contract),
            partition_by=partitioning(mart),
            sort_by=mart.sort_by,
            properties=mart_properties(mart),
        ),
    )
    if isinstance(mart, Current) and mart.live_view:
        _live_view(context, mart, path)
    base = context.head(path, rebuilt=step.rebuild)
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
    bookmark = context.bookmark(step.upto, declared=declared_mart(table, mart), newest=until)
    failpoint("mart.before_write")
    with context.batch(path, bookmark) as batch:
        if size is None or chosen == "rebuild":
            whole = _whole(context, step, mart, shape)
            batch.append(whole) if base.snapshot_id is None else batch.replace(whole)
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
    report.rows = int(published.summary.get("added-records", 0))
    report.strategy = "load" if base.snapshot_id is None else chosen
    if chosen == "rebuild":
        report.inserted = report.rows
    report.seconds = time.monotonic() - began
    return report


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


def _live_view(context: Context, mart: Current, path: tuple[str, ...]) -> None:
    """Keep the view over a soft table that leaves its deleted rows out.

    Called before the rows are written: a run that dies after its commit has nothing left to do.
    """
    spark, view = context.spark, quote(*path[:-1], str(mart.live_view))
    names = [name for name in spark.table(quote(*path)).columns if name not in ("is_deleted", "deleted_at")]
    if not spark.catalog.tableExists(view) or spark.table(view).columns != names:
        columns = ", ".join(map(quote, names))
        spark.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT {columns} FROM {quote(*path)} WHERE NOT is_deleted")
