"""Keep the tables of a lake in shape: compact, expire, remove orphans, compute statistics."""

from __future__ import annotations

import datetime as dt
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import AtomicType

from frazil.engine.certify import Certifying
from frazil.engine.compact import compact, small_bytes
from frazil.engine.interrupt import interruptibly
from frazil.engine.run import working_sessions
from frazil.failpoints import failpoint
from frazil.lake.commit import TableTransaction
from frazil.lake.gateway import java_table
from frazil.lake.heads import head
from frazil.lake.lock import lock
from frazil.lake.procedure import call
from frazil.lake.snapshot import BOOKMARK
from frazil.lake.trouble import translated
from frazil.plan.policy import DEFAULT_POLICY
from frazil.spec.names import literal, quote
from frazil.spec.select import selected
from frazil.spec.tables import lake_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from frazil.lake.snapshot import TableSnapshot
    from frazil.spec import Pipeline, Upkeep


@dataclass(slots=True, kw_only=True)
class MaintainReport:
    """What upkeep did to one table; sizes in bytes."""

    table: str
    files_before: int = 0
    files_after: int = 0
    size_before_bytes: int = 0
    size_after_bytes: int = 0
    delete_files_after: int = 0
    snapshots_expired: int = 0
    orphans_removed: int = 0
    seconds: float = 0.0


def maintain(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    select: Sequence[str] = (),
    now: dt.datetime | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[MaintainReport]:
    """Keep every table of a pipeline in shape.

    Small files and files with many deleted rows are rewritten, old snapshots and unreferenced files go, and
    statistics for query planners are computed. The order is rewrite, stamp, expire: a rewrite leaves a
    snapshot without bookmark on top, and expiring the one below would lose it, so the bookmark is written
    again first. Killed at any instant, the next upkeep or run goes on.

    Args:
        pipeline: the declaration; its ``upkeep`` says how old and how large.
        spark: a session with the pipeline's lake.
        select: as for a run; empty for all tables.
        now: time that ages are counted from; left out, the present.
        tell: called with the name of each table when its turn comes.

    Raises:
        BusyError: a run holds the pipeline.
    """
    moment = now or dt.datetime.now(dt.UTC)
    selection = selected(pipeline, select)
    meant = {*selection.tables, *selection.gold}
    paths = [made.path for made in lake_tables(pipeline) if made.role != "view" and made.made_of in meant]

    def work(session: SparkSession) -> Iterator[MaintainReport]:
        for path in paths:
            if session.catalog.tableExists(quote(*path)):
                tell(".".join(path[1:]))
                yield _table(session, path, pipeline.upkeep, moment)

    with lock(pipeline), translated(pipeline), working_sessions(spark, 1) as sessions:
        certifying = Certifying.of(pipeline, "maintain", removes_metadata=True)
        reports = interruptibly(lambda: [*work(sessions[0])], sessions)
        if certifying is not None:
            certifying.write_or_tell(tell)
        return reports


def _table(spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep, now: dt.datetime) -> MaintainReport:
    began = time.monotonic()
    before = head(spark, quote(*path))
    report = MaintainReport(table=".".join(path[1:]))
    report.files_before, report.size_before_bytes = _size(before)
    if before.snapshot_id is not None:
        compact(spark, path, upkeep, DEFAULT_POLICY, smaller=small_bytes(upkeep, DEFAULT_POLICY))
        failpoint("maintain.after_rewrite")
        stamp(spark, path)
        failpoint("maintain.after_stamp")
        report.snapshots_expired = _expire(spark, path, upkeep, now)
        failpoint("maintain.after_expire")
        older = _timestamp(now - dt.timedelta(days=upkeep.orphans_after_days))
        table = java_table(spark, quote(*path))
        listing = listing_of(table.location() if table else "")
        report.orphans_removed = call(spark, path, "remove_orphan_files", f"older_than => {older}", *listing).count()
        if before.summary.get("total-records", "0") != "0":
            _statistics(spark, path)
    after = head(spark, quote(*path))
    report.files_after, report.size_after_bytes = _size(after)
    report.delete_files_after = int(after.summary.get("total-delete-files", 0))
    report.seconds = time.monotonic() - began
    return report


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
    older = _timestamp(now - dt.timedelta(days=upkeep.expire_after_days))
    # With the snapshots go the ways in which only they were partitioned.
    settings = (f"older_than => {older}", f"retain_last => {upkeep.retain_last}", "clean_expired_metadata => true")
    call(spark, path, "expire_snapshots", *settings)
    return before - spark.sql(f"SELECT snapshot_id FROM {quote(*path)}.snapshots").count()


def listing_of(address: str) -> tuple[str, ...]:
    """Return the argument that has a table's files listed by Iceberg's own client of an object store.

    None where Hadoop lists them as well: it knows local disks and HDFS, and has no client for the others here.
    """
    return ("prefix_listing => true",) if re.match(r"(?!file:|hdfs:)[a-z][a-z0-9+.-]+:", address) else ()


def _timestamp(moment: dt.datetime) -> str:
    return f"TIMESTAMP {literal(moment.astimezone(dt.UTC).strftime('%Y-%m-%d %H:%M:%S.%f'))}"


def _size(at: TableSnapshot) -> tuple[int, int]:
    return int(at.summary.get("total-data-files", 0)), int(at.summary.get("total-files-size", 0))
