"""Leave of a table only the files that its newest rows need: what was deleted is in no byte that is left."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.failpoints import failpoint
from frazil.iceberg.durable import make_table_durable
from frazil.lake.heads import head
from frazil.lake.orphans import fence, remove_unnamed, unnamed_files
from frazil.lake.refs import let_go_of_torn, refs_of, snapshots_of
from frazil.lake.tables import property_list
from frazil.runner.upkeep.maintain import stamp
from frazil.spark.gateway import call, java_class, java_table
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REWRITE: Final = {
    # Every file that a delete file takes a row from, and no other.
    "delete-file-threshold": "1",
    "min-file-size-bytes": "0",
    "max-file-size-bytes": str(2**62),
    "remove-dangling-deletes": "true",
    "partial-progress.enabled": "false",
    # No delete file is as new as the files that are written: all of them fall away.
    "use-starting-sequence-number": "false",
}

_MANIFEST_BYTES: Final = "commit.manifest.target-size-bytes"
_DECLARED_BYTES: Final = "frazil.erase.manifest-bytes"
"""Property with the size that a table had before manifests were rewritten; an empty text where it had none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What was removed of a table: snapshots, names of branches and tags, files that nothing refers to."""

    snapshots: int = 0
    refs: tuple[str, ...] = ()
    orphans: int = 0


def purge(spark: SparkSession, path: tuple[str, ...], *, target_file_mb: int) -> Purged:
    """Rewrite files with deleted rows, then drop branches, tags, all older snapshots and all files they leave.

    The order is rewrite, stamp, expire, as in :func:`frazil.runner.upkeep.maintain.maintain`. Readers see the same rows
    before and after. Killed at any instant, it can be done again.

    Raises:
        BusyError: a run published meanwhile; runs that began before this are refused, too.

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
    # Every commit leaves manifests away in which no file is left.
    stamp(spark, path)
    _rewrite_manifests(spark, path)
    stamp(spark, path)
    refs = refs_of(spark, path)
    for ref, kind in refs:
        make_table_durable(java_table(spark, name))
        spark.sql(f"ALTER TABLE {name} DROP {kind} IF EXISTS {quote(ref)}")
    before = snapshots_of(spark, path)
    # Snapshots are as old as the clock says: one that ran ahead must not keep them.
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=3650)
    make_table_durable(java_table(spark, name))
    _expire(spark, name, int(later.timestamp() * 1000))
    listed = unnamed_files(spark, path, later)
    # Also where nothing is listed: a run that has read this table before would bring back what is deleted.
    fence(spark, path)
    _expire(spark, name, int(later.timestamp() * 1000))
    orphans = remove_unnamed(spark, path, listed, later)
    return Purged(snapshots=before - snapshots_of(spark, path), refs=tuple(ref for ref, _ in refs), orphans=orphans)


def _expire(spark: SparkSession, name: str, before_ms: int) -> None:
    """Drop all snapshots but the newest, and what only they needed.

    By this process alone: the jobs with which Iceberg's procedure finds the files cost as much for each table as to
    write a million rows again.
    """
    table = java_table(spark, name)
    if table is not None:
        pool = java_class(spark, "org.apache.iceberg.util.ThreadPools").getWorkerPool()
        expiring = table.expireSnapshots().expireOlderThan(before_ms).retainLast(1).cleanExpiredMetadata(True)
        expiring.executeDeleteWith(pool).commit()


def _rewrite_manifests(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Write the manifests again, where one of them still notes a removed file, with its least and greatest values.

    Iceberg leaves a single manifest as it is, unless two are to be made of it.
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
    """Give a table back the size of manifests that it had, also where an erase was killed before it could."""
    name, table = quote(*path), java_table(spark, quote(*path))
    declared = None if table is None else table.properties().get(_DECLARED_BYTES)
    if declared is None:
        return
    gone = [_DECLARED_BYTES] if declared else [_MANIFEST_BYTES, _DECLARED_BYTES]
    if declared:
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({property_list({_MANIFEST_BYTES: declared})})")
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(literal, gone))})")
