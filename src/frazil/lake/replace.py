"""A whole table in one commit: columns, partitions, rows and bookmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from frazil.lake.commit import RUN_ID, bookmark_text, came_second
from frazil.lake.heads import head
from frazil.lake.snapshot import BOOKMARK, TableSnapshot
from frazil.lake.tables import partition_clause, property_list, set_sort_order
from frazil.older_spark import is_older
from frazil.spec.names import quote
from frazil.spec.transforms import Transform, partition_transform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from frazil.plan.table_layout import TableLayout

_SNAPSHOT_PROPERTY: Final = "spark.sql.iceberg.snapshot-property."
"""Prefix of a session's settings that get into the summary of what it writes."""


def replace_table(
    spark: SparkSession,
    layout: TableLayout,
    base: TableSnapshot,
    bookmark: Mapping[str, Any],
    rows: DataFrame,
    *,
    run_id: str = "",
) -> TableSnapshot:
    """Replace a table's columns, partitions and rows in one commit, which carries the bookmark.

    For tables that :func:`frazil.lake.tables.ensure` cannot bring to a layout. Readers see the old table or the new
    one; the old snapshots can still be read until they expire. The bookmark is handed over as a setting of the session,
    so nothing else may be written in it meanwhile.

    Args:
        spark: a session that this thread alone writes with.
        layout: how the table is to be; the rows have its columns.
        base: where the table stood when the rows were computed.
        bookmark: what the commit carries.
        rows: all rows of the table.
        run_id: names the run in the snapshot's summary.

    Returns:
        Where the table stands now.

    Raises:
        BusyError: another run published first.
    """
    name = quote(*layout.path)
    if head(spark, name, rebuilt=True).snapshot_id != base.snapshot_id:
        raise came_second(layout.path)
    casts = [f"CAST({quote(column)} AS {kind}) AS {quote(column)}" for column, kind in layout.columns.items()]
    summary = {BOOKMARK: bookmark_text(bookmark), RUN_ID: run_id, "frazil.strategy": "recompute"}
    (_by_writer if is_older() else _by_sql)(rows.selectExpr(*casts), layout, summary)
    if layout.sort_by:
        set_sort_order(spark, name, layout.sort_by)
    return head(spark, name)


def _by_sql(rows: DataFrame, layout: TableLayout, summary: Mapping[str, str]) -> None:
    spark, view = rows.sparkSession, f"frazil_rows_{layout.path[-1]}"
    rows.createOrReplaceTempView(quote(view))
    for key, value in summary.items():
        spark.conf.set(_SNAPSHOT_PROPERTY + key, value)
    try:
        spark.sql(
            f"REPLACE TABLE {quote(*layout.path)} USING iceberg{partition_clause(layout)} "
            f"TBLPROPERTIES ({property_list(layout.all_properties)}) AS SELECT * FROM {quote(view)}"
        )
    finally:
        for key in summary:
            spark.conf.unset(_SNAPSHOT_PROPERTY + key)
        spark.catalog.dropTempView(view)


def _by_writer(rows: DataFrame, layout: TableLayout, summary: Mapping[str, str]) -> None:
    """Replace a table on Spark 3.5, where Iceberg takes what a commit carries from a writer and not from the session.

    A writer has no ``truncate``, and takes no column with both a dot and a backtick in its name. Such a partition is
    added right afterwards, for what is written from then on; a run that dies in between leaves the table without it.
    """
    name = quote(*layout.path)
    writer = rows.writeTo(name).using("iceberg")
    for key, value in layout.all_properties.items():
        writer = writer.tableProperty(key, value)
    for key, value in summary.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    transforms = [partition_transform(text) for text in layout.partition_by]
    later = [one for one in transforms if one.kind == "truncate" or {".", "`"} <= {*one.column}]
    partitions = [_partition(one) for one in transforms if one not in later]
    (writer.partitionedBy(*partitions) if partitions else writer).replace()
    for partition in (one.sql for one in later):
        rows.sparkSession.sql(f"ALTER TABLE {name} ADD PARTITION FIELD {partition}")


def _partition(transform: Transform) -> Column:
    # Spark reads the name a second time; it quotes one with a dot before that, and no other.
    name = quote(transform.column)
    column = F.col(name if "." in transform.column else quote(name))
    if transform.kind == "identity":
        return column
    if transform.n is not None:
        return F.bucket(transform.n, column)
    of_time: Column = getattr(F, f"{transform.kind}s")(column)
    return of_time
