"""Keep the tables of a lake in shape: compact, merge manifests, expire, remove orphans, compute statistics."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING

from pyspark.sql.types import AtomicType

from frazil.failpoints import failpoint
from frazil.iceberg.durable import make_table_durable
from frazil.iceberg.snapshot import BOOKMARK
from frazil.lake.commit import TableTransaction
from frazil.lake.heads import head
from frazil.lake.orphans import remove_orphans
from frazil.lake.refs import let_go_of_torn
from frazil.plan.policy import DEFAULT_POLICY
from frazil.runner.report.report import MaintainReport
from frazil.runner.upkeep.compact import compact, small_bytes
from frazil.spark.gateway import call, java_table
from frazil.spec.sql.names import literal, quote
from frazil.spec.tables import lake_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pyspark.sql import SparkSession

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.plan.policy import Policy
    from frazil.spec import Pipeline, Upkeep
    from frazil.spec.tables import LakeTable


def tables_to_maintain(pipeline: Pipeline, made_of: Collection[str]) -> list[LakeTable]:
    """Return the lake's tables that are made of some source tables and aggregates; views hold nothing."""
    return [made for made in lake_tables(pipeline) if made.role != "view" and made.made_of in made_of]


def maintained(
    spark: SparkSession,
    pipeline: Pipeline,
    tables: Iterable[LakeTable],
    now: dt.datetime,
    tell: Callable[[str], None],
) -> Iterator[MaintainReport]:
    """Maintain those of some tables that exist, one after the other; the lock of the pipeline is held."""
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
    """Merge a table's manifests where they are many and would fit into half as many; readers open each of them."""
    lengths = _manifests(spark, path)
    would_be = sum(lengths) / policy.manifest_bytes + 2  # of data, and of deletes
    if len(lengths) >= policy.manifests and would_be <= len(lengths) / 2:
        call(spark, path, "rewrite_manifests", "use_caching => false")
        failpoint("maintain.after_manifests")


def _manifests(spark: SparkSession, path: tuple[str, ...]) -> list[int]:
    """Return the sizes of the newest snapshot's manifests; none where there is no snapshot."""
    table = java_table(spark, quote(*path))
    if table is None or (newest := table.currentSnapshot()) is None:
        return []
    return [manifest.length() for manifest in newest.allManifests(table.io())]


def _statistics(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Compute statistics of all columns but those whose names the procedure takes for something else."""
    columns = [column for column in spark.table(quote(*path)).schema if isinstance(column.dataType, AtomicType)]
    names = [column.name for column in columns if not {".", "`"} & set(column.name)]
    if len(names) == len(columns):
        call(spark, path, "compute_table_stats")
    elif names:
        call(spark, path, "compute_table_stats", f"columns => array({', '.join(map(literal, names))})")


def stamp(spark: SparkSession, path: tuple[str, ...]) -> None:
    """Write the bookmark again if the newest snapshot does not carry it."""
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
    # With the snapshots go the ways in which only they were partitioned.
    settings = (f"older_than => {older}", f"retain_last => {upkeep.retain_last}", "clean_expired_metadata => true")
    call(spark, path, "expire_snapshots", *settings)
    return before - spark.sql(f"SELECT snapshot_id FROM {quote(*path)}.snapshots").count()


def _timestamp(moment: dt.datetime) -> str:
    return f"TIMESTAMP {literal(moment.astimezone(dt.UTC).strftime('%Y-%m-%d %H:%M:%S.%f'))}"


def _size(at: TableSnapshot) -> tuple[int, int]:
    return int(at.summary.get("total-data-files", 0)), int(at.summary.get("total-files-size", 0))
