"""Bring one mart level with silver, in one commit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from frazil.engine.report import MartReport
from frazil.engine.split import Increment, split
from frazil.failpoints import failpoint
from frazil.lake.tables import TableLayout, ensure
from frazil.marts.all_rows import all_rows
from frazil.marts.layout import mart_columns, partitioning, shape_of
from frazil.marts.shape import with_event_time
from frazil.silver.contract import declared_mart
from frazil.spec import Current
from frazil.spec.names import quote

if TYPE_CHECKING:
    from frazil.engine.context import Context
    from frazil.silver.contract import Contract
    from frazil.steps import UpdateMart


def update_mart(context: Context, step: UpdateMart, contract: Contract) -> None:
    """Apply the changes after the mart's bookmark.

    A mart without rows, and one that is rebuilt, is made from all changes at once; otherwise
    :mod:`frazil.engine.split` applies what is new.
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
            properties={"format-version": str(mart.format_version), **mart.properties},
        ),
    )
    if isinstance(mart, Current) and mart.live_view:
        _live_view(context, mart, path)
    base = context.head(path, rebuilt=step.rebuild)
    silver = context.head(context.changes).bookmark
    shape = shape_of(contract, mart, since=silver.get("since", {}), partial=bool(silver.get("partial")))
    report = MartReport(mart=step.mart, batch=step.upto)
    bookmark = context.bookmark(step.upto, declared=declared_mart(table, mart))
    failpoint("mart.before_write")
    changes = with_event_time(spark.table(quote(*context.changes)), shape)
    with context.batch(path, bookmark) as batch:
        if step.rebuild or step.after == 0:
            report.strategy = "load" if base.snapshot_id is None else "rebuild"
            rows = all_rows(mart, changes, shape)
            batch.append(rows) if base.snapshot_id is None else batch.replace(rows)
        else:
            report.strategy = "split"
            target = with_event_time(spark.table(quote(*path)), shape)
            mine = Increment(mart=mart, step=step, shape=shape, changes=changes, target=target)
            split(context, mine, batch, report)
        failpoint("mart.before_publish")
        published = batch.publish()
    failpoint("mart.after_publish")
    report.rows = int(published.summary.get("added-records", 0))
    if report.strategy != "split":
        report.inserted = report.rows
    report.seconds = time.monotonic() - began
    context.report.marts.append(report)


def _live_view(context: Context, mart: Current, path: tuple[str, ...]) -> None:
    """Keep the view over a soft table that leaves its deleted rows out.

    Called before the rows are written: a run that dies after its commit has nothing left to do.
    """
    spark, view = context.spark, quote(*path[:-1], str(mart.live_view))
    names = [name for name in spark.table(quote(*path)).columns if name not in ("is_deleted", "deleted_at")]
    if not spark.catalog.tableExists(view) or spark.table(view).columns != names:
        columns = ", ".join(map(quote, names))
        spark.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT {columns} FROM {quote(*path)} WHERE NOT is_deleted")
