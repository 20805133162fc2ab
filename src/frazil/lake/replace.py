"""A whole table in one commit: columns, partitions, rows and bookmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.iceberg.clock import verify_clock
from frazil.iceberg.durable import make_table_durable
from frazil.iceberg.snapshot import BOOKMARK, TableSnapshot, bookmark_text
from frazil.lake.commit import RUN_ID, came_second, refused_as_second
from frazil.lake.heads import head
from frazil.lake.tables import set_sort_order
from frazil.spark.gateway import append_staged, java_class, java_table
from frazil.spec.model.transforms import partition_transform
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from frazil.plan.tables.layout import TableLayout


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

    Used for tables that :func:`frazil.lake.tables.ensure` cannot alter to a layout. Readers see either the old table or
    the new one; the old snapshots can be read until they expire.

    Args:
        spark: a session with a JVM gateway.
        layout: the table's new layout; the rows have its columns.
        base: the table's snapshot when the rows were computed.
        bookmark: the bookmark that the commit carries.
        rows: all rows of the table.
        run_id: names the run in the snapshot's summary.

    Returns:
        The table's new snapshot.

    Raises:
        BusyError: the table has changed since ``base``; the files that were written become orphans.
        ClockError: the table's newest commit is later than this machine's clock.
    """
    verify_clock(layout.path, base)
    name = quote(*layout.path)
    table = java_table(spark, name)
    if table is None:
        raise TypeError(f"{name} cannot be reached through a JVM gateway")
    operations = table.operations()
    before, newest = operations.current(), table.currentSnapshot()
    if (newest and newest.snapshotId()) != base.snapshot_id:
        raise came_second(layout.path)
    casts = [f"CAST({quote(column)} AS {kind}) AS {quote(column)}" for column, kind in layout.columns.items()]
    rows = rows.selectExpr(*casts)
    replacement = _replacement(spark, before, layout, rows)
    transactions = java_class(spark, "org.apache.iceberg.Transactions")
    staged = transactions.replaceTableTransaction(table.name(), operations, replacement)
    summary = {BOOKMARK: bookmark_text(bookmark), RUN_ID: run_id, "frazil.strategy": "recompute"}
    append_staged(rows, layout.path[0], staged, summary)
    make_table_durable(table)
    with refused_as_second(layout.path):
        # Iceberg's own replace transaction would overwrite concurrent commits.
        operations.commit(before, staged.currentMetadata())
    if layout.sort_by:
        set_sort_order(spark, name, layout.sort_by)
    return head(spark, name)


def _replacement(spark: SparkSession, before: Any, layout: TableLayout, rows: DataFrame) -> Any:
    """Return a table's metadata with the columns, partitions and properties of a layout, and without rows."""
    types = rows._jdf.schema().asNullable()  # noqa: SLF001
    schema = java_class(spark, "org.apache.iceberg.spark.SparkSchemaUtil").convert(types)
    spec = java_class(spark, "org.apache.iceberg.PartitionSpec").builderFor(schema)
    for transform in map(partition_transform, layout.partition_by):
        number = () if transform.n is None else (transform.n,)
        spec = getattr(spec, transform.kind)(transform.column, *number)
    order = java_class(spark, "org.apache.iceberg.SortOrder").unsorted()
    return before.buildReplacement(schema, spec.build(), order, before.location(), dict(layout.all_properties))
