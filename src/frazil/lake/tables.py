"""Create Iceberg tables, and alter them as a plan says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from frazil.catalog.trouble import CatalogError
from frazil.iceberg.durable import make_table_durable
from frazil.iceberg.snapshot import spark_columns
from frazil.lake.heads import is_missing
from frazil.plan.tables import alterations as plan
from frazil.spark.gateway import java_table, schema_fields
from frazil.spec.sql.names import literal, quote
from frazil.steps import AddColumn, RemoveProperty, RenameColumn, SetLiveView, SetProperty, SetSortOrder, WidenColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from frazil.plan.tables.layout import TableLayout
    from frazil.steps import Alteration

_VERSIONS: Final = 4
"""So many versions of a table may come before the disk has them: Iceberg removes the metadata of older ones itself."""


def ensure(spark: SparkSession, layout: TableLayout) -> None:
    """Create a table, or give it the columns that it lacks; columns that the layout does not have stay.

    Of a table that a plan was made for nothing is left to alter here, as its steps have done it.

    Raises:
        TypeChangedError: a column has another type that no widening reaches.
    """
    present = _columns(spark, quote(*layout.path))
    if present is None:
        _create(spark, layout)
    else:
        alter(spark, quote(*layout.path), plan.alterations(replace(layout, columns=present), layout))


def table_fits(spark: SparkSession, layout: TableLayout) -> bool:
    """Return whether a table is missing, or :func:`ensure` can give it just the columns of a layout."""
    present = _columns(spark, quote(*layout.path))
    return present is None or plan.fits(present, layout)


def alter(spark: SparkSession, name: str, changes: Iterable[Alteration]) -> None:
    """Alter a table, by its quoted name. Live views are not a table's: they are passed over."""
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
    """Let writers sort the files of a table, by its quoted name; no columns for no order."""
    order = f"LOCALLY ORDERED BY {', '.join(map(quote, sort_by))}" if sort_by else "UNORDERED"
    spark.sql(f"ALTER TABLE {name} WRITE {order}")


def property_list(properties: Mapping[str, str]) -> str:
    """Write properties as the list of a TBLPROPERTIES clause."""
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())


def _columns(spark: SparkSession, name: str) -> dict[str, str] | None:
    """Read a table's columns with their types; None if it does not exist."""
    try:
        table = java_table(spark, name)
    except Exception as error:
        if is_missing(error):
            return None
        raise
    if table is not None:
        return spark_columns(schema_fields(spark, table.schema()))
    if not spark.catalog.tableExists(name):
        return None
    return {column.name: column.dataType.simpleString() for column in spark.table(name).schema}


def _create(spark: SparkSession, layout: TableLayout) -> None:
    name = quote(*layout.path)
    _namespace(spark, quote(*layout.path[:-1]))
    columns = ", ".join(f"{quote(column)} {kind}" for column, kind in layout.columns.items())
    partition = f" PARTITIONED BY ({', '.join(layout.partition_by)})" if layout.partition_by else ""
    properties = property_list(layout.all_properties)
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING iceberg{partition} TBLPROPERTIES ({properties})")
    # A commit that the catalog does not take counts as another's table of the same name, which IF NOT EXISTS forgives.
    if _columns(spark, name) is None:
        raise CatalogError(
            f"the catalog did not make the table {layout.path[-2]}.{layout.path[-1]}, and does not say why",
            hint="look at the log of the catalog: at the locks of a Hive metastore, at the rights in others; run again",
        )
    if layout.sort_by:
        set_sort_order(spark, name, layout.sort_by)


def open_catalog(spark: SparkSession, namespace: str) -> None:
    """Let a session open its catalog. Iceberg's Java API finds it there only once SQL has asked for something.

    A new catalog in a database makes its own tables now, and not in one step. Where another process does the same at
    this moment, one of the two fails, and finds them made when it asks again.

    Args:
        spark: the session.
        namespace: any one, quoted, with the catalog before it; it need not exist.

    Cost: one request. A catalog that does not answer is asked twice.
    """
    try:
        spark.catalog.databaseExists(namespace)
    except Exception:  # noqa: BLE001 - Spark wraps what the database says; what stays wrong is raised by the next line
        spark.catalog.databaseExists(namespace)


def _namespace(spark: SparkSession, name: str) -> None:
    try:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}")
    except Exception:
        # The catalog looks and creates in two steps; a table beside this one may have come between.
        if not spark.catalog.databaseExists(name):
            raise
