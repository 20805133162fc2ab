"""Remove every file that the current snapshot does not need, so that deleted rows are in no remaining byte."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.failpoints import failpoint
from frazil.iceberg.files import make_table_durable
from frazil.lake.orphans import fence, remove_unnamed, unnamed_files
from frazil.lake.refs import head, let_go_of_torn, refs_of, snapshots_of
from frazil.lake.tables import property_list
from frazil.runner.upkeep.maintain import stamp
from frazil.spark.gateway import call, java_class, java_table
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REWRITE: Final = {
    # Every file with rows deleted by a delete file, and no other.
    "delete-file-threshold": "1",
    "min-file-size-bytes": "0",
    "max-file-size-bytes": str(2**62),
    "remove-dangling-deletes": "true",
    "partial-progress.enabled": "false",
    # The written files are newer than every delete file, so all delete files are dropped.
    "use-starting-sequence-number": "false",
}

_MANIFEST_BYTES: Final = "commit.manifest.target-size-bytes"
_DECLARED_BYTES: Final = "frazil.erase.manifest-bytes"
"""Property with the table's manifest size before the rewrite; an empty string if it was not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """Removed parts of a table: number of snapshots, names of branches and tags, number of orphan files."""

    snapshots: int = 0
    refs: tuple[str, ...] = ()
    orphans: int = 0


def purge(spark: SparkSession, path: tuple[str, ...], *, target_file_mb: int) -> Purged:
    """Rewrite files with deleted rows, then drop branches, tags, all older snapshots and all files they leave.

    The order is rewrite, stamp, expire, as in :func:`frazil.runner.upkeep.maintain.maintain`. Readers see the same rows
    before and after. After a kill at any point it can be repeated.

    Args:
        spark: a session with the lake.
        path: path of the table.
        target_file_mb: target size of rewritten files.

    Raises:
        BusyError: a run published meanwhile; runs that began earlier are refused too.

    Cost: one rewrite of the files that have deleted rows; a listing of the table's folder.
    """
    name = quote(*path)
    if head(spark, name, rebuilt=True).snapshot_id is None:
        return Purged()
    let_go_of_torn(spark, path)
    size = {"target-file-size-bytes": str(target_file_mb * 1024 * 1024)}
    written = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in (_REWRITE | size).items())
    call(spark, path, "rewrite_data_files", f"options => map({written})")
    if head(spark, name, rebuilt=True).delete_files:
        call(spark, path, "rewrite_position_delete_files", "options => map('rewrite-all', 'true')")
    failpoint("erase.after_rewrite")
    # Every commit drops manifests without files.
    stamp(spark, path)
    _rewrite_manifests(spark, path)
    stamp(spark, path)
    refs = refs_of(spark, path)
    for ref, kind in refs:
        make_table_durable(java_table(spark, name))
        spark.sql(f"ALTER TABLE {name} DROP {kind} IF EXISTS {quote(ref)}")
    before = snapshots_of(spark, path)
    # A clock that ran ahead gives snapshots later times; they must expire too.
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=3650)
    make_table_durable(java_table(spark, name))
    _expire(spark, name, int(later.timestamp() * 1000))
    listed = unnamed_files(spark, path, later)
    # Also without listed files: a run that has read this table before would bring deleted rows back.
    fence(spark, path)
    _expire(spark, name, int(later.timestamp() * 1000))
    orphans = remove_unnamed(spark, path, listed, later)
    return Purged(snapshots=before - snapshots_of(spark, path), refs=tuple(ref for ref, _ in refs), orphans=orphans)


def _expire(spark: SparkSession, name: str, before_ms: int) -> None:
    """Drop all snapshots except the newest, and the files that only they reference.

    This process does the work: the Spark jobs of Iceberg's procedure cost as much per table as rewriting a million
    rows.
    """
    table = java_table(spark, name)
    if table is not None:
        pool = java_class(spark, "org.apache.iceberg.util.ThreadPools").getWorkerPool()
        expiring = table.expireSnapshots().expireOlderThan(before_ms).retainLast(1).cleanExpiredMetadata(True)
        expiring.executeDeleteWith(pool).commit()


def _rewrite_manifests(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Rewrite the manifests if one of them still has an entry, with bounds, of a removed file.

    Iceberg does not rewrite a single manifest unless it would split into two.
    """
    _restore_manifest_size(spark, path)
    name, table = quote(*path), java_table(spark, quote(*path))
    if table is None:
        return
    found = list(table.currentSnapshot().allManifests(table.io()))
    if not any(manifest.hasDeletedFiles() for manifest in found):
        return
    by_content = [[one.length() for one in found if one.content().id() == content] for content in (0, 1)]
    single = [lengths[0] for lengths in by_content if len(lengths) == 1]
    if not single:
        call(spark, path, "rewrite_manifests", "use_caching => false")
        return
    half = str(max(min(single) // 2, 1))
    changed = {_MANIFEST_BYTES: half, _DECLARED_BYTES: table.properties().getOrDefault(_MANIFEST_BYTES, "")}
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({property_list(changed)})")
    try:
        call(spark, path, "rewrite_manifests", "use_caching => false")
    finally:
        _restore_manifest_size(spark, path)


def _restore_manifest_size(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Restore a table's manifest size, also after a killed erase."""
    name, table = quote(*path), java_table(spark, quote(*path))
    declared = None if table is None else table.properties().get(_DECLARED_BYTES)
    if declared is None:
        return
    gone = [_DECLARED_BYTES] if declared else [_MANIFEST_BYTES, _DECLARED_BYTES]
    if declared:
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({property_list({_MANIFEST_BYTES: declared})})")
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(literal, gone))})")
