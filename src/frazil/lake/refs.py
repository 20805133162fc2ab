"""A table's newest snapshot, its branches, tags and snapshots, and setting its current one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from frazil.catalog.trouble import faults
from frazil.errors import BusyError
from frazil.iceberg.files import torn_snapshots
from frazil.iceberg.metadata import local_path, read_metadata
from frazil.iceberg.snapshot import (
    RUN_BRANCH,
    TableSnapshot,
    altered_columns,
    spark_columns,
    table_snapshot,
    verify_bookmark,
)
from frazil.spark.gateway import java_class, java_table, schema_fields, snapshot_fields
from frazil.spec.sql.names import quote

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
        found = _head(spark, java_table(spark, name))
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
    history = java_class(spark, "org.apache.iceberg.util.SnapshotUtil")
    found: bool = history.isAncestorOf(java_table(spark, name), snapshot_id)
    return found


def is_missing(error: Exception) -> bool:
    """Return whether an error says that a table or namespace does not exist."""
    return any(fault.condition in _MISSING_CONDITIONS or fault.is_any(*_MISSING) for fault in faults(error))


def _head(spark: SparkSession, table: Any) -> TableSnapshot:
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


def refs_of(spark: SparkSession, path: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return name and kind, ``branch`` or ``tag``, of all branches and tags of a table but ``main``."""
    refs = _table(spark, path).refs()
    return sorted((name, "branch" if refs[name].isBranch() else "tag") for name in refs if name != "main")


def snapshots_of(spark: SparkSession, path: tuple[str, ...]) -> int:
    """Return how many snapshots of a table can be read."""
    return int(_table(spark, path).operations().current().snapshots().size())


def tag(spark: SparkSession, path: tuple[str, ...], name: str) -> int | None:
    """Return the snapshot of a tag; None if the table has no such tag.

    Args:
        spark: a session with the lake.
        path: catalog, namespace and name of the table.
        name: name of the tag.
    """
    found = _table(spark, path).refs().get(name)
    return None if found is None else int(found.snapshotId())


def create_tag(spark: SparkSession, path: tuple[str, ...], name: str, snapshot: int) -> None:
    """Tag a snapshot, so that it does not expire.

    Args:
        spark: a session with the lake.
        path: catalog, namespace and name of the table.
        name: name of the new tag.
        snapshot: id of the snapshot.
    """
    _table(spark, path).manageSnapshots().createTag(name, snapshot).commit()


def drop_tag(spark: SparkSession, path: tuple[str, ...], name: str) -> None:
    """Remove a tag if it exists.

    Args:
        spark: a session with the lake.
        path: catalog, namespace and name of the table.
        name: name of the tag.
    """
    table = _table(spark, path)
    if table.refs().get(name) is not None:
        table.manageSnapshots().removeTag(name).commit()


def let_go_of_torn(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Drop a table's unpublished snapshots with unreadable manifests, and the branches of killed runs.

    The caller holds the pipeline's lock, so no run is writing. The files of these snapshots become orphans. Nothing is
    done if all snapshots can be read, or if the table is not on this machine's disk.

    Cost: as :func:`frazil.iceberg.files.torn_snapshots`.
    """
    table = _table(spark, path)
    location = table.operations().current().metadataFileLocation()
    torn = [] if local_path(location) is None else torn_snapshots(read_metadata(location))
    if not torn:
        return
    for name, kind in refs_of(spark, path):
        if kind == "branch" and name.startswith(RUN_BRANCH):
            table.manageSnapshots().removeBranch(name).commit()
    # Expire nothing by age, and remove no files.
    going = table.expireSnapshots().expireOlderThan(0).cleanExpiredFiles(False)
    for snapshot in torn:
        going = going.expireSnapshotId(snapshot)
    going.commit()


def show_snapshot(spark: SparkSession, path: tuple[str, ...], snapshot: int) -> None:
    """Set ``main`` to an older snapshot and its schema, in one commit.

    Args:
        spark: a session with the lake.
        path: catalog, namespace and name of the table.
        snapshot: id of the snapshot.

    Raises:
        BusyError: the snapshot has expired.
    """
    table = _table(spark, path)
    operations, older = table.operations(), table.snapshot(snapshot)
    if older is None:
        raise BusyError(
            f"{'.'.join(path[1:])}: another process expired snapshot {snapshot} meanwhile; nothing was changed",
            hint="run again: the points in time that can be shown are read anew",
        )
    before = operations.current()
    metadata = java_class(spark, "org.apache.iceberg.TableMetadata").buildFrom(before)
    if older.schemaId() not in (None, before.currentSchemaId()):
        metadata = metadata.setCurrentSchema(older.schemaId())
    operations.commit(before, metadata.setBranchSnapshot(snapshot, "main").build())


def _table(spark: SparkSession, path: tuple[str, ...]) -> Any:
    return java_table(spark, quote(*path))
