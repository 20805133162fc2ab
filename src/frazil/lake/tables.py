"""Create Iceberg tables and let them grow by columns."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from frazil.errors import SchemaError
from frazil.lake.gateway import java_class, java_table
from frazil.lake.heads import is_missing
from frazil.spec.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

WIDER = {("int", "bigint"), ("float", "double")}


class TypeChangedError(SchemaError):
    """A declared type is not the one the table has, and data would have to be converted."""

    code = "FZ503"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """How a table is to be: columns with types, partitioning, sort order, properties."""

    path: tuple[str, ...]
    columns: Mapping[str, str]
    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


DEFAULTS = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.delete.mode": "merge-on-read",
    "write.delete.isolation-level": "serializable",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
    "commit.retry.num-retries": "10",
}


def ensure(spark: SparkSession, layout: TableLayout) -> bool:
    """Make a table exist with all its columns.

    New columns are added, ``int`` and ``float`` columns and decimal precisions are widened. Columns that the
    layout no longer has stay.

    Returns:
        Whether the table was made or its columns changed.

    Raises:
        TypeChangedError: a column has another type that no widening reaches.
    """
    name = quote(*layout.path)
    present = _columns(spark, name)
    if present is None:
        _create(spark, layout)
        return True
    changed = False
    for column, kind in layout.columns.items():
        have = present.get(column.lower())
        if have is None:
            spark.sql(f"ALTER TABLE {name} ADD COLUMN {quote(column)} {kind}")
            changed = True
        elif have != _simple(kind):
            if not _is_wider(have, kind):
                raise TypeChangedError(
                    f"{'.'.join(layout.path[1:])}: column {column!r} is {have} in the table "
                    f"and {kind} in the declaration",
                    hint=f"declare it as {have}, or rebuild the table: frazil rebuild",
                )
            spark.sql(f"ALTER TABLE {name} ALTER COLUMN {quote(column)} TYPE {kind}")
            changed = True
    return changed


def fits(spark: SparkSession, layout: TableLayout) -> bool:
    """Return whether a table is missing, or :func:`ensure` can give it just the columns of a layout.

    Other tables have columns that the layout lacks, or of types that no widening reaches: to hold what the layout says
    they are replaced, see :func:`frazil.lake.commit.replace_table`.
    """
    present = _columns(spark, quote(*layout.path))
    if present is None:
        return True
    wanted = {column.lower(): kind for column, kind in layout.columns.items()}
    return present.keys() <= wanted.keys() and all(
        have == _simple(wanted[column]) or _is_wider(have, wanted[column]) for column, have in present.items()
    )


def set_sort_order(spark: SparkSession, name: str, sort_by: Sequence[str]) -> None:
    """Let writers sort the files of a table, by its quoted name; no columns for no order."""
    order = f"LOCALLY ORDERED BY {', '.join(map(quote, sort_by))}" if sort_by else "UNORDERED"
    spark.sql(f"ALTER TABLE {name} WRITE {order}")


def set_properties(spark: SparkSession, name: str, properties: Mapping[str, str], gone: Iterable[str] = ()) -> None:
    """Set properties of a table, by its quoted name, and remove those that are ``gone``."""
    if properties:
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({property_list(properties)})")
    left = ", ".join(map(literal, gone))
    if left:
        spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({left})")


def property_list(properties: Mapping[str, str]) -> str:
    """Write properties as the list of a TBLPROPERTIES clause."""
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())


def all_properties(layout: TableLayout) -> dict[str, str]:
    """Return the properties that a table of a layout has: Frazil's own, and those of the layout before them."""
    distribution = "hash" if layout.partition_by else "none"
    return DEFAULTS | {"write.distribution-mode": distribution} | dict(layout.properties)


def partition_clause(layout: TableLayout) -> str:
    """Write the PARTITIONED BY clause of a layout; empty for a table that is not partitioned."""
    return f" PARTITIONED BY ({', '.join(layout.partition_by)})" if layout.partition_by else ""


def _columns(spark: SparkSession, name: str) -> dict[str, str] | None:
    """Read a table's columns, in lower case, with their types; None if it does not exist."""
    try:
        table = java_table(spark, name)
    except Exception as error:
        if is_missing(error):
            return None
        raise
    if table is not None:
        java = java_class(spark, "org.apache.iceberg.spark.SparkSchemaUtil").convert(table.schema())
        schema = StructType.fromJson(json.loads(java.json()))
    elif spark.catalog.tableExists(name):
        schema = spark.table(name).schema
    else:
        return None
    return {column.name.lower(): column.dataType.simpleString() for column in schema}


def _create(spark: SparkSession, layout: TableLayout) -> None:
    name = quote(*layout.path)
    _namespace(spark, quote(*layout.path[:-1]))
    columns = ", ".join(f"{quote(column)} {kind}" for column, kind in layout.columns.items())
    partition, properties = partition_clause(layout), property_list(all_properties(layout))
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING iceberg{partition} TBLPROPERTIES ({properties})")
    if layout.sort_by:
        set_sort_order(spark, name, layout.sort_by)


def _namespace(spark: SparkSession, name: str) -> None:
    try:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}")
    except Exception:
        # The catalog looks and creates in two steps; a table beside this one may have come between.
        if not spark.catalog.databaseExists(name):
            raise


@cache
def _simple(kind: str) -> str:
    """Write a type the way a schema prints it."""
    fields = StructType.fromDDL(f"c {kind}")
    return str(fields.simpleString()).removeprefix("struct<c:").removesuffix(">")


def _is_wider(have: str, want: str) -> bool:
    if (have, want) in WIDER:
        return True
    if have.startswith("decimal(") and want.startswith("decimal("):
        (p, s), (q, t) = (tuple(map(int, kind[8:-1].split(","))) for kind in (have, want))
        return q > p and s == t
    return False
