"""Create, alter and replace Iceberg tables as a plan says, and drop unreadable ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, assert_never

from frazil.catalog.trouble import CatalogError, translate_error
from frazil.iceberg.files import make_table_durable
from frazil.iceberg.metadata import DamagedTableError
from frazil.iceberg.snapshot import BOOKMARK, RUN_ID, TableSnapshot, bookmark_text, spark_columns, verify_clock
from frazil.lake.commit import came_second, refused_as_second
from frazil.lake.refs import head, is_missing
from frazil.plan import alterations as plan
from frazil.silver.baseline import BASELINE
from frazil.spark.gateway import append_staged, identifier_fields, java_class, java_table, schema_fields
from frazil.spec.model.mart import partition_transform
from frazil.spec.sql.names import literal, quote
from frazil.spec.tables import gold_table, source_tables
from frazil.steps import AddColumn, RemoveProperty, RenameColumn, SetLiveView, SetProperty, SetSortOrder, WidenColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from frazil.catalog.warehouse import TornTables
    from frazil.plan.layout import TableLayout
    from frazil.spec import Pipeline
    from frazil.steps import Alteration

_VERSIONS: Final = 4
"""So many versions of a table may come before the disk has them: Iceberg removes the metadata of older ones itself."""


def ensure(spark: SparkSession, layout: TableLayout) -> None:
    """Create a table, or give it the columns that it lacks; columns that the layout does not have stay.

    If another engine made a column of the layout NOT NULL, it takes NULL again.

    Of a table that a plan was made for nothing is left to alter here, as its steps have done it.

    Raises:
        TypeChangedError: a column has another type that no widening reaches.
    """
    present = _columns(spark, quote(*layout.path))
    if present is None:
        _create(spark, layout)
    else:
        name = quote(*layout.path)
        alter(spark, name, plan.alterations(replace(layout, columns=present), layout))
        for column in _required(spark, name):
            if column in layout.columns:
                spark.sql(f"ALTER TABLE {name} ALTER COLUMN {quote(column)} DROP NOT NULL")


def table_fits(spark: SparkSession, layout: TableLayout) -> bool:
    """Return whether a table is missing, or :func:`ensure` can alter it to exactly the columns of a layout."""
    present = _columns(spark, quote(*layout.path))
    return present is None or plan.fits(present, layout)


def alter(spark: SparkSession, name: str, changes: Iterable[Alteration]) -> None:
    """Alter a table. Changes of live views are skipped, since they do not belong to the table.

    Args:
        spark: a session with the lake.
        name: quoted name of the table.
        changes: the alterations, in order.
    """
    for number, change in enumerate(changes, 1):
        if number % _VERSIONS == 0:
            make_table_durable(java_table(spark, name))
        match change:
            case AddColumn(column=column, type=kind):
                spark.sql(f"ALTER TABLE {name} ADD COLUMN {quote(column)} {kind}")
            case RenameColumn(column=column, name=now):
                spark.sql(f"ALTER TABLE {name} RENAME COLUMN {quote(column)} TO {quote(now)}")
            case WidenColumn(column=column, type=kind):
                spark.sql(f"ALTER TABLE {name} ALTER COLUMN {quote(column)} TYPE {kind}")
            case SetSortOrder():
                set_sort_order(spark, name, change.columns)
            case SetProperty():
                spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({literal(change.name)} = {literal(change.value)})")
            case RemoveProperty():
                spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({literal(change.name)})")
            case SetLiveView():
                pass
            case _:
                assert_never(change)


def set_sort_order(spark: SparkSession, name: str, sort_by: Sequence[str]) -> None:
    """Set the order in which writers sort the rows of each file.

    Args:
        spark: a session with the lake.
        name: quoted name of the table.
        sort_by: the columns; empty to remove the order.
    """
    order = f"LOCALLY ORDERED BY {', '.join(map(quote, sort_by))}" if sort_by else "UNORDERED"
    spark.sql(f"ALTER TABLE {name} WRITE {order}")


def property_list(properties: Mapping[str, str]) -> str:
    """Return properties as the list of a TBLPROPERTIES clause."""
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())


def _columns(spark: SparkSession, name: str) -> dict[str, str] | None:
    """Read a table's columns with their types; None if it does not exist."""
    try:
        table = java_table(spark, name)
    except Exception as error:
        if is_missing(error):
            return None
        raise
    return spark_columns(schema_fields(spark, table.schema()))


def _required(spark: SparkSession, name: str) -> list[str]:
    """Return the columns that take no NULL, besides identifier fields: Frazil makes no such columns."""
    schema = java_table(spark, name).schema()
    identifying = identifier_fields(spark, schema)
    return [
        field["name"] for field in schema_fields(spark, schema) if field["required"] and field["id"] not in identifying
    ]


def _create(spark: SparkSession, layout: TableLayout) -> None:
    name = quote(*layout.path)
    _namespace(spark, quote(*layout.path[:-1]))
    columns = ", ".join(f"{quote(column)} {kind}" for column, kind in layout.columns.items())
    partition = f" PARTITIONED BY ({', '.join(layout.partition_by)})" if layout.partition_by else ""
    properties = property_list(layout.all_properties)
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING iceberg{partition} TBLPROPERTIES ({properties})")
    # A refused commit looks like a concurrently created table, which IF NOT EXISTS ignores.
    if _columns(spark, name) is None:
        raise CatalogError(
            f"the catalog did not make the table {layout.path[-2]}.{layout.path[-1]}, and does not say why",
            hint="look at the log of the catalog: at the locks of a Hive metastore, at the rights in others; run again",
        )
    if layout.sort_by:
        set_sort_order(spark, name, layout.sort_by)


def open_catalog(spark: SparkSession, namespace: str) -> None:
    """Open a session's catalog. Iceberg's Java API finds a catalog only after a first SQL request.

    A new catalog in a database now creates its own tables, in several steps. If two processes do so at once, one of
    them fails, and succeeds when it tries again.

    Args:
        spark: the session.
        namespace: any quoted namespace with its catalog; it need not exist.

    Cost: one request; two if the catalog does not answer.
    """
    try:
        spark.catalog.databaseExists(namespace)
    except Exception:  # noqa: BLE001 - Spark wraps what the database says; what stays wrong is raised by the next line
        spark.catalog.databaseExists(namespace)


def _namespace(spark: SparkSession, name: str) -> None:
    try:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}")
    except Exception:
        # The catalog checks and creates in two steps, so another table's run may have created it in between.
        if not spark.catalog.databaseExists(name):
            raise


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
        spark: any session.
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


def drop_damaged(spark: SparkSession, pipeline: Pipeline, names: Sequence[str], torn: TornTables) -> list[str]:
    """Drop tables with unreadable metadata or manifests from the catalog, before a rebuild creates them again.

    Replacing all rows of a table needs its metadata and manifests. Files stay until ``frazil maintain`` removes them as
    orphans. Bronze is never dropped. Damaged data files do not matter: a rebuild does not read the rows it replaces.

    Args:
        spark: a session with the lake.
        pipeline: the declaration.
        names: source tables to rebuild; the aggregates are rebuilt too.
        torn: damaged tables from :func:`frazil.catalog.warehouse.torn_tables`; they are not opened.

    Returns:
        The dropped tables, with their namespaces.

    Raises:
        DamagedTableError: bronze, or a silver with a baseline, cannot be read; no table is dropped then.

    Cost: the manifests of the newest snapshot of each table.
    """
    made = [source_tables(pipeline, table) for table in pipeline.tables if table.name in names]
    for own in made:
        if (damage := _damage(spark, own.bronze.path, torn)) is not None:
            raise damage
        # Bronze lacks the records of a baseline.
        is_kept = BASELINE in head(spark, quote(*own.bronze.path)).bookmark
        if is_kept and (damage := _damage(spark, own.changes.path, torn)) is not None:
            raise damage
    dropped = []
    aggregates = [gold_table(pipeline, gold) for gold in pipeline.gold]
    for one in (*(one for own in made for one in own.computed), *aggregates):
        if _damage(spark, one.path, torn) is not None:
            forget_table(spark, one.path)
            dropped.append(one.full_name)
    return dropped


def _damage(spark: SparkSession, path: tuple[str, str, str], torn: TornTables) -> DamagedTableError | None:
    """Return the damage to a table's metadata or manifests; None for an intact or missing table."""
    if (damage := torn.get(path[1:])) is not None:
        return damage
    try:
        table = java_table(spark, quote(*path))
        if table.currentSnapshot() is not None:
            iterables = java_class(spark, "org.apache.iceberg.relocated.com.google.common.collect.Iterables")
            iterables.size(table.newScan().planFiles())
    except Exception as error:
        known = translate_error(error)
        if isinstance(known, DamagedTableError):
            return known
        if not is_missing(error):
            raise
    return None


def forget_table(spark: SparkSession, path: tuple[str, str, str]) -> None:
    """Drop a table from the catalog without opening it, as Spark's DROP TABLE would; its files stay."""
    catalog, namespace, name = path
    known = java_class(spark, "org.apache.iceberg.spark.Spark3Util").loadIcebergCatalog(spark._jsparkSession, catalog)  # noqa: SLF001
    identifier = java_class(spark, "org.apache.iceberg.catalog.TableIdentifier").parse(f"{namespace}.{name}")
    known.dropTable(identifier, False)
