"""Maintain tables: on demand, those that are due at the end of a run, and to the last byte after an erase."""

from __future__ import annotations

import datetime as dt
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import AtomicType

from frazil.audit.certificates import Certifying
from frazil.catalog.lock import TURN_SECONDS, waiting_lock
from frazil.catalog.trouble import as_frazil_error, translated
from frazil.failpoints import failpoint
from frazil.iceberg.files import make_table_durable
from frazil.iceberg.metadata import expirable
from frazil.iceberg.snapshot import BOOKMARK
from frazil.lake.commit import TableTransaction
from frazil.lake.orphans import fence, remove_orphans, remove_unnamed, unnamed_files
from frazil.lake.refs import head, let_go_of_torn, refs_of, snapshots_of
from frazil.lake.tables import property_list
from frazil.plan.policy import DEFAULT_POLICY
from frazil.runner.compact import compact, small_bytes
from frazil.runner.report import MaintainReport
from frazil.runner.sessions import interruptibly, working_sessions
from frazil.spark.gateway import call, java_class, java_table
from frazil.spec.sql.names import literal, quote
from frazil.spec.sql.select import selected
from frazil.spec.tables import lake_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.plan.policy import Policy
    from frazil.runner.report import RunReport
    from frazil.spec import Pipeline, Upkeep
    from frazil.spec.tables import LakeTable

_WAY_SECONDS: Final = 0.75
"""Time without the lock between two tables: a waiting watch checks the lock three times in it."""


def maintain(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    select: Sequence[str] = (),
    now: dt.datetime | None = None,
    tell: Callable[[str], None] = lambda _: None,
    wait_seconds: float = TURN_SECONDS,
) -> list[MaintainReport]:
    """Maintain every table of a pipeline.

    Small files and files with many deleted rows are rewritten, small manifests are merged, old snapshots and orphan
    files are removed, and statistics for query planners are computed. The order is rewrite, stamp, expire: a rewrite
    creates a newest snapshot without a bookmark, and expiring the snapshot below would lose it. The bookmark is
    therefore written again first. After a kill at any point, the next maintenance or run continues.

    A waiting run goes first between two tables, so it waits for one table at most.

    Args:
        pipeline: the declaration; its ``upkeep`` has the ages and sizes.
        spark: a session with the pipeline's lake.
        select: names or patterns, as for a run; empty for all tables.
        now: reference time for ages; None for the present.
        tell: called with the name of each table when its turn comes.
        wait_seconds: how long to wait for a run to end, before each table.

    Raises:
        BusyError: a run holds the pipeline for longer than ``wait_seconds``; earlier tables are maintained.
    """
    moment = now or dt.datetime.now(dt.UTC)
    selection = selected(pipeline, select)
    done: list[MaintainReport] = []
    for made in tables_to_maintain(pipeline, {*selection.tables, *selection.gold}):
        if done:
            time.sleep(_WAY_SECONDS)
        with waiting_lock(pipeline, wait_seconds), translated(pipeline):
            done += _maintain_one(pipeline, spark, made, moment, tell)
    return done


def _maintain_one(
    pipeline: Pipeline, spark: SparkSession, made: LakeTable, now: dt.datetime, tell: Callable[[str], None]
) -> list[MaintainReport]:
    with working_sessions(spark, 1) as (session,):
        certifying = Certifying.of(pipeline, "maintain", removes_metadata=True)
        done = interruptibly(lambda: [*maintained(session, pipeline, [made], now, tell)], [session])
        if certifying is not None:
            certifying.write_or_warn()
        return done


def tables_to_maintain(pipeline: Pipeline, made_of: Collection[str]) -> list[LakeTable]:
    """Return the lake tables of some source tables and aggregates; views have no files and are left out."""
    return [made for made in lake_tables(pipeline) if made.role != "view" and made.made_of in made_of]


def maintained(
    spark: SparkSession,
    pipeline: Pipeline,
    tables: Iterable[LakeTable],
    now: dt.datetime,
    tell: Callable[[str], None],
) -> Iterator[MaintainReport]:
    """Maintain the existing tables one after the other; the caller holds the lock.

    Args:
        spark: a session with the pipeline's lake.
        pipeline: the declaration.
        tables: the tables.
        now: reference time for ages.
        tell: called with the name of each table when its turn comes.
    """
    for made in tables:
        if spark.catalog.tableExists(quote(*made.path)):
            tell(made.full_name)
            yield _table(spark, made.path, pipeline.upkeep, now)


def _table(spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep, now: dt.datetime) -> MaintainReport:
    began = time.monotonic()
    let_go_of_torn(spark, path)
    before = head(spark, quote(*path))
    report = MaintainReport(table=".".join(path[1:]))
    report.files_before, report.size_before_bytes = _size(before)
    if before.snapshot_id is not None:
        small = small_bytes(upkeep, DEFAULT_POLICY)
        report.manifests_before = len(_manifests(spark, path))
        report.rewritten_bytes = compact(spark, path, upkeep, DEFAULT_POLICY, smaller=small)
        failpoint("maintain.after_rewrite")
        merge_manifests(spark, path, DEFAULT_POLICY)
        stamp(spark, path)
        failpoint("maintain.after_stamp")
        report.snapshots_expired = _expire(spark, path, upkeep, now)
        failpoint("maintain.after_expire")
        report.orphans_removed = remove_orphans(spark, path, now - dt.timedelta(days=upkeep.orphans_after_days))
        if before.summary.get("total-records", "0") != "0":
            _statistics(spark, path)
    after = head(spark, quote(*path))
    report.files_after, report.size_after_bytes = _size(after)
    report.manifests_after = len(_manifests(spark, path))
    report.delete_files_after = int(after.summary.get("total-delete-files", 0))
    report.seconds = time.monotonic() - began
    return report


def merge_manifests(spark: SparkSession, path: tuple[str, ...], policy: Policy) -> None:
    """Merge a table's manifests if they are many and would fit into half as many; readers open each manifest.

    Args:
        spark: a session with the lake.
        path: path of the table.
        policy: thresholds.
    """
    lengths = _manifests(spark, path)
    would_be = sum(lengths) / policy.manifest_bytes + 2  # of data, and of deletes
    if len(lengths) >= policy.manifests and would_be <= len(lengths) / 2:
        call(spark, path, "rewrite_manifests", "use_caching => false")
        failpoint("maintain.after_manifests")


def _manifests(spark: SparkSession, path: tuple[str, ...]) -> list[int]:
    """Return the sizes of the newest snapshot's manifests; empty without a snapshot."""
    table = java_table(spark, quote(*path))
    newest = table.currentSnapshot()
    return [] if newest is None else [manifest.length() for manifest in newest.allManifests(table.io())]


def _statistics(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Compute statistics of all columns, except those whose names the procedure misinterprets."""
    columns = [column for column in spark.table(quote(*path)).schema if isinstance(column.dataType, AtomicType)]
    names = [column.name for column in columns if not {".", "`"} & set(column.name)]
    if len(names) == len(columns):
        call(spark, path, "compute_table_stats")
    elif names:
        call(spark, path, "compute_table_stats", f"columns => array({', '.join(map(literal, names))})")


def stamp(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Restore the bookmark if the newest snapshot lacks it."""
    base = head(spark, quote(*path))
    if BOOKMARK not in base.summary and base.bookmark:
        with TableTransaction(spark, path, base, base.bookmark) as batch:
            batch.append(spark.table(quote(*path)).limit(0))
            batch.publish()


def _expire(spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep, now: dt.datetime) -> int:
    snapshots = spark.sql(f"SELECT snapshot_id FROM {quote(*path)}.snapshots")
    before = snapshots.count()
    make_table_durable(java_table(spark, quote(*path)))
    older = _timestamp(now - dt.timedelta(days=upkeep.expire_after_days))
    # Partition specs that only expired snapshots used are removed too.
    settings = (f"older_than => {older}", f"retain_last => {upkeep.retain_last}", "clean_expired_metadata => true")
    call(spark, path, "expire_snapshots", *settings)
    return before - spark.sql(f"SELECT snapshot_id FROM {quote(*path)}.snapshots").count()


def _timestamp(moment: dt.datetime) -> str:
    return f"TIMESTAMP {literal(moment.astimezone(dt.UTC).strftime('%Y-%m-%d %H:%M:%S.%f'))}"


def _size(at: TableSnapshot) -> tuple[int, int]:
    return int(at.summary.get("total-data-files", 0)), int(at.summary.get("total-files-size", 0))


def maintain_due(
    spark: SparkSession,
    pipeline: Pipeline,
    made_of: Collection[str],
    report: RunReport,
    *,
    now: dt.datetime,
    tell: Callable[[str], None],
) -> None:
    """Maintain the tables that are due, and add the results to the report.

    A table is due if one of its snapshots has been expirable for ``after_run_days``, so the time of the last
    maintenance need not be stored. A failure of maintenance is a warning, because the tables are correct.

    Args:
        spark: a session with the pipeline's lake.
        pipeline: the declaration; a no-op unless its ``upkeep`` sets ``after_run_days``.
        made_of: the source tables and aggregates that the run has written.
        report: receives the reports and warnings.
        now: reference time for ages.
        tell: called with the name of each table when its turn comes.
    """
    days = pipeline.upkeep.after_run_days
    if days is None:
        return
    certifying: Certifying | None = None
    for made in tables_to_maintain(pipeline, made_of):
        try:
            if not _is_due(spark, made, pipeline.upkeep, days, now):
                continue
            certifying = certifying or Certifying.of(pipeline, "maintain", removes_metadata=True)
            report.maintained += maintained(spark, pipeline, [made], now, tell)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has done what it was for
            failure = as_frazil_error(error, pipeline)
            report.warnings.append(
                f"{made.full_name} is not maintained: [{failure.code}] {failure.message}. It holds what it should; "
                "frazil maintain tries again"
            )
    if certifying is not None and (why := certifying.write(run_id="", now=dt.datetime.now(dt.UTC))):
        report.warnings.append(f"the certificate cannot be written: {why}")


def _is_due(spark: SparkSession, made: LakeTable, upkeep: Upkeep, days: float, now: dt.datetime) -> bool:
    if not spark.catalog.tableExists(quote(*made.path)):
        return False
    table = java_table(spark, quote(*made.path))
    parser = java_class(spark, "org.apache.iceberg.TableMetadataParser")
    metadata = json.loads(parser.toJson(table.operations().current()))
    before = now - dt.timedelta(days=upkeep.expire_after_days)
    gone = expirable(metadata, older_than_ms=round(before.timestamp() * 1000), retain_last=upkeep.retain_last)
    return bool(gone) and gone[0] <= (before - dt.timedelta(days=days)).timestamp() * 1000


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

    The order is rewrite, stamp, expire, as in :func:`frazil.runner.maintain.maintain`. Readers see the same rows
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
    _expire_older(spark, name, int(later.timestamp() * 1000))
    listed = unnamed_files(spark, path, later)
    # Also without listed files: a run that has read this table before would bring deleted rows back.
    fence(spark, path)
    _expire_older(spark, name, int(later.timestamp() * 1000))
    orphans = remove_unnamed(spark, path, listed, later)
    return Purged(snapshots=before - snapshots_of(spark, path), refs=tuple(ref for ref, _ in refs), orphans=orphans)


def _expire_older(spark: SparkSession, name: str, before_ms: int) -> None:
    """Drop all snapshots except the newest, and the files that only they reference.

    This process does the work: the Spark jobs of Iceberg's procedure cost as much per table as rewriting a million
    rows.
    """
    table = java_table(spark, name)
    pool = java_class(spark, "org.apache.iceberg.util.ThreadPools").getWorkerPool()
    expiring = table.expireSnapshots().expireOlderThan(before_ms).retainLast(1).cleanExpiredMetadata(True)
    expiring.executeDeleteWith(pool).commit()


def _rewrite_manifests(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Rewrite the manifests if one of them still has an entry, with bounds, of a removed file.

    Iceberg does not rewrite a single manifest unless it would split into two.
    """
    _restore_manifest_size(spark, path)
    name, table = quote(*path), java_table(spark, quote(*path))
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
    declared = table.properties().get(_DECLARED_BYTES)
    if declared is None:
        return
    gone = [_DECLARED_BYTES] if declared else [_MANIFEST_BYTES, _DECLARED_BYTES]
    if declared:
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({property_list({_MANIFEST_BYTES: declared})})")
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(literal, gone))})")
