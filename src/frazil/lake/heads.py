"""Read a table's newest snapshot, by Java or by SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from frazil.host.faults import faults
from frazil.iceberg.snapshot import TableSnapshot, altered_columns, spark_columns, table_snapshot, verify_bookmark
from frazil.spark.gateway import java_table, schema_fields, snapshot_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_MISSING: Final = (
    "org.apache.iceberg.exceptions.NoSuchTableException",
    "org.apache.iceberg.exceptions.NoSuchNamespaceException",
    "org.apache.spark.sql.catalyst.analysis.NoSuchTableException",
    "org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException",
)
_MISSING_CONDITIONS: Final = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"})


def head(spark: SparkSession, name: str, *, rebuilt: bool = False) -> TableSnapshot:
    """Return a table's newest snapshot; an empty value if the table does not exist.

    Args:
        spark: a session with the lake.
        name: quoted name of the table.
        rebuilt: the table is about to be rebuilt, so a lost bookmark does not matter.

    Raises:
        BookmarkLostError: the table has a snapshot, and no ancestor of it carries a bookmark.
    """
    try:
        table = java_table(spark, name)
        found = _head_by_java(spark, table) if table is not None else _head_by_sql(spark, name)
    except Exception as error:
        if is_missing(error):
            return TableSnapshot()
        raise
    if not rebuilt:
        verify_bookmark(name.replace("`", ""), found, table=name.replace("`", "").rpartition(".")[2])
    return found


def is_ancestor(spark: SparkSession, name: str, snapshot_id: int) -> bool:
    """Return whether a snapshot is still kept and is an ancestor of the table's newest one.

    Args:
        spark: a session with the lake.
        name: quoted name of the table.
        snapshot_id: the snapshot.
    """
    found = spark.sql(
        f"SELECT 1 FROM {name}.history JOIN {name}.snapshots USING (snapshot_id) "
        f"WHERE snapshot_id = {int(snapshot_id)} AND is_current_ancestor LIMIT 1"
    )
    return not found.isEmpty()


def is_missing(error: Exception) -> bool:
    """Return whether an error says that a table or namespace does not exist."""
    return any(fault.condition in _MISSING_CONDITIONS or fault.is_any(*_MISSING) for fault in faults(error))


def _head_by_java(spark: SparkSession, table: Any) -> TableSnapshot:
    def fields(snapshot_id: int) -> dict[str, Any] | None:
        found = table.snapshot(snapshot_id)
        return None if found is None else snapshot_fields(spark, found)

    def altered(schema: int | None) -> Mapping[str, str]:
        now = table.schema()
        if schema is None or schema == now.schemaId():
            return {}
        then = table.schemas().get(schema)
        return {} if then is None else altered_columns(schema_fields(spark, then), schema_fields(spark, now))

    newest = table.currentSnapshot()
    # Read as one text: a Java collection costs a round trip for each item.
    names = re.findall(r"[^\[\], ]+", table.refs().keySet().toString())
    branches = tuple(name for name in names if name != "main")
    location = table.operations().current().metadataFileLocation()
    columns = spark_columns(schema_fields(spark, table.schema()))
    found = TableSnapshot(branches=branches, location=location, columns=columns)
    return found if newest is None else table_snapshot(found, snapshot_fields(spark, newest), fields, altered)


def _head_by_sql(spark: SparkSession, name: str) -> TableSnapshot:
    refs = {
        row["name"]: row["snapshot_id"] for row in spark.sql(f"SELECT name, snapshot_id FROM {name}.refs").collect()
    }
    schema = spark.sql(f"SELECT * FROM {name} LIMIT 0").schema
    columns = {column.name: column.dataType.simpleString() for column in schema}
    found = TableSnapshot(branches=tuple(ref for ref in refs if ref != "main"), columns=columns)
    if "main" not in refs:
        return found
    snapshots = {
        row["snapshot_id"]: {
            "snapshot-id": row["snapshot_id"],
            "parent-snapshot-id": row["parent_id"],
            "timestamp-ms": round(row["committed_at"].timestamp() * 1000),
            "manifest-list": row["manifest_list"],
            "summary": {"operation": row["operation"], **row["summary"]},
        }
        for row in spark.sql(f"SELECT * FROM {name}.snapshots").collect()
    }
    return table_snapshot(found, snapshots[refs["main"]], snapshots.get)
