"""Change what of a mart's table can change without its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.failpoints import failpoint
from frazil.lake.tables import set_properties, set_sort_order
from frazil.marts.layout import mart_layout, mart_properties
from frazil.spec import Current
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import SparkSession

    from frazil.engine.table_run import TableRun
    from frazil.spec import History
    from frazil.steps import AlterMart


def alter_mart(context: TableRun, step: AlterMart) -> None:
    """Alter a mart's table, then note its layout in a commit without rows.

    A run that dies before that commit does all of it again: each statement may be repeated.
    """
    context.tell(f"alter {step.mart}")
    mart = next(mart for mart in context.table.marts if context.table.mart_name(mart) == step.mart)
    path = context.mart_path(mart)
    match_layout(context, mart, step.before)
    bookmark = {**context.head(path).bookmark, "layout": dict(step.after)}
    with context.transaction(path, bookmark) as transaction:
        transaction.append(context.spark.table(quote(*path)).limit(0))
        failpoint("mart.before_publish")
        transaction.publish()


def match_layout(context: TableRun, mart: Current | History, before: Mapping[str, Any]) -> None:
    """Bring properties, sort order and live view of a mart's table from an earlier layout to the declared one.

    Args:
        context: the table's part of the run.
        mart: the mart, whose table exists.
        before: the layout in its bookmark; empty for a table that was just made, or is older than such bookmarks.
    """
    name = quote(*context.mart_path(mart))
    if before and before != mart_layout(mart):
        set_sort_order(context.spark, name, mart.sort_by)
        gone = before["properties"].keys() - mart_properties(mart).keys()
        set_properties(context.spark, name, mart_properties(mart), sorted(gone))
    _keep_live_view(context, mart, before.get("live_view"))


def _keep_live_view(context: TableRun, mart: Current | History, old: str | None) -> None:
    """Keep the view over a soft table that leaves its deleted rows out, and drop one that is not declared any more."""
    spark, path = context.spark, context.mart_path(mart)
    wanted = mart.live_view if isinstance(mart, Current) else None
    if old and old != wanted:
        spark.sql(f"DROP VIEW IF EXISTS {quote(*path[:-1], old)}")
    if wanted:
        _live_view(spark, path, wanted)


def _live_view(spark: SparkSession, path: tuple[str, ...], view: str) -> None:
    name = quote(*path[:-1], view)
    names = [name for name in spark.table(quote(*path)).columns if name not in ("is_deleted", "deleted_at")]
    if not spark.catalog.tableExists(name) or spark.table(name).columns != names:
        columns = ", ".join(map(quote, names))
        spark.sql(f"CREATE OR REPLACE VIEW {name} AS SELECT {columns} FROM {quote(*path)} WHERE NOT is_deleted")
