"""Alter tables as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from frazil.failpoints import failpoint
from frazil.lake.tables import alter
from frazil.marts.layout import live_columns, mart_layout
from frazil.runner.steps.normalize import note_declared
from frazil.runner.table_run import declared_bookmark
from frazil.silver.contract import declared_mart, settings
from frazil.spec import Current
from frazil.spec.sql.names import quote
from frazil.steps import RenameColumn, SetLiveView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from frazil.runner.table_run import TableRun
    from frazil.spec import History
    from frazil.steps import AlterTable


def alter_table(context: TableRun, step: AlterTable, *, notes: bool = False) -> None:
    """Alter a table. Every statement is repeatable, so the next run can repeat all of them after a kill.

    Args:
        context: the table's part of the run.
        step: the alteration.
        notes: store the declaration in the bookmark of silver or a mart, in a commit without rows. False if a later
            commit of the run does so: a rebuild, or a batch for the mart.
    """
    context.tell(f"alter {step.mart or step.name}")
    path = next(path for path in context.paths if ".".join(path[1:]) == step.name)
    is_renamed = any(isinstance(change, RenameColumn) for change in step.changes)
    mart = context.mart(step.mart) if step.mart else None
    if is_renamed and isinstance(mart, Current) and mart.live_view is not None:
        # It names columns that are about to be dropped.
        context.spark.sql(f"DROP VIEW IF EXISTS {quote(*path[:-1], mart.live_view)}")
    alter(context.spark, quote(*path), step.changes)
    for change in step.changes:
        if isinstance(change, SetLiveView):
            if change.before:
                context.spark.sql(f"DROP VIEW IF EXISTS {quote(*path[:-1], change.before)}")
            if change.after:
                keep_live_view(context.spark, path, context.mart(step.mart))
    if is_renamed and mart is not None:
        keep_live_view(context.spark, path, mart)
    if notes and mart is not None:
        note_layout(context, mart)
    if notes and is_renamed and path == context.changes:
        note_declared(context)


def note_layout(context: TableRun, mart: Current | History) -> None:
    """Store a mart's layout and declaration in its bookmark, in a commit without rows."""
    path, table = context.mart_path(mart), context.table
    base = context.head(path).bookmark
    bookmark = {
        **base,
        **declared_bookmark(context, base, declared_mart(table, mart)),
        "layout": mart_layout(mart),
        "settings": settings(table, mart),
    }
    with context.transaction(path, bookmark) as transaction:
        transaction.append(context.spark.table(quote(*path)).limit(0))
        failpoint("mart.before_publish")
        context.heads[path] = transaction.publish()


def keep_live_view(spark: SparkSession, path: tuple[str, ...], mart: Current | History) -> None:
    """Create or update the live view of a mart, with the mart's current columns; a no-op for marts without a view.

    Args:
        spark: a session with the lake.
        path: path of the mart.
        mart: its declaration.
    """
    if not isinstance(mart, Current) or mart.live_view is None:
        return
    name = quote(*path[:-1], mart.live_view)
    types = {field.name: field.dataType for field in spark.table(quote(*path)).schema}
    names = live_columns(mart, [*types])
    if _columns(spark, name) != [(column, types[column]) for column in names]:
        columns = ", ".join(map(quote, names))
        spark.sql(f"CREATE OR REPLACE VIEW {name} AS SELECT {columns} FROM {quote(*path)} WHERE NOT is_deleted")


def _columns(spark: SparkSession, view: str) -> list[tuple[str, DataType]] | None:
    """Return the columns of a view, by its quoted name; None if it is missing or its mart's columns have changed.

    Spark's ``tableExists`` does not find views of Iceberg.
    """
    try:
        return [(field.name, field.dataType) for field in spark.table(view).schema]
    except AnalysisException:
        return None
