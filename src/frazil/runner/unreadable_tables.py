"""Drop unreadable tables before a rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.catalog.trouble import translate_error
from frazil.iceberg.damage import DamagedTableError
from frazil.lake.heads import head, is_missing
from frazil.silver.baseline import BASELINE
from frazil.spark.gateway import java_class, java_table
from frazil.spec.sql.names import quote
from frazil.spec.tables import gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from frazil.catalog.warehouse import TornTables
    from frazil.spec import Pipeline


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
        if table is not None and table.currentSnapshot() is not None:
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
