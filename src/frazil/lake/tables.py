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
    if table is not None:
        return spark_columns(schema_fields(spark, table.schema()))
    if not spark.catalog.tableExists(name):
        return None
    return {column.name: column.dataType.simpleString() for column in spark.table(name).schema}


def _required(spark: SparkSession, name: str) -> list[str]:
    """Return the columns that take no NULL, besides identifier fields: Frazil makes no such columns."""
    table = java_table(spark, name)
    if table is None:
        return []
    identifying = {int(one) for one in table.schema().identifierFieldIds()}
    fields = schema_fields(spark, table.schema())
    return [field["name"] for field in fields if field["required"] and field["id"] not in identifying]


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
