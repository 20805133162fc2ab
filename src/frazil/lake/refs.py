"""Branches, tags and snapshots of a table, and setting its current one. Needs a JVM gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.errors import BusyError
from frazil.iceberg.damage import local_path
from frazil.iceberg.file_integrity import torn_snapshots
from frazil.iceberg.metadata import read_metadata
from frazil.iceberg.snapshot import RUN_BRANCH
from frazil.spark.gateway import java_class, java_table
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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

    Cost: as :func:`frazil.iceberg.file_integrity.torn_snapshots`.
    """
    table = _table(spark, path)
    location = None if table is None else table.operations().current().metadataFileLocation()
    torn = [] if location is None or local_path(location) is None else torn_snapshots(read_metadata(location))
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
