"""Compact tables: merge small files, and rewrite files with many deleted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.failpoints import failpoint
from frazil.lake.merge_files import choose_merge, merge_files
from frazil.runner.batch.driver_batch import UNREADABLE, mart_files
from frazil.spark.gateway import call
from frazil.spec.sql.names import literal, quote
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.plan.policy import Policy
    from frazil.runner.table_run import TableRun
    from frazil.spec import Upkeep


def compact_mart(context: TableRun, path: tuple[str, ...], at: TableSnapshot, *, after: int, upto: int) -> bool:
    """Merge the small files of a mart at the right intervals.

    The driver merges every ``merge_every`` batches. Spark merges the other files every ``compact_every`` batches.

    Args:
        context: the table's part of the run.
        path: path of the mart.
        at: its newest snapshot.
        after: batch of the mart before the run's commit.
        upto: batch of the mart now.

    Returns:
        Whether files were merged.

    Cost: the driver reads and writes the small files, and files up to ``merge_bytes`` with many deleted rows, without a
        Spark job.
    """
    policy, upkeep = context.policy, context.pipeline.upkeep
    is_time, is_sparks_time = (after // every < upto // every for every in (policy.merge_every, policy.compact_every))
    if not (is_time or is_sparks_time):
        return False
    smaller = small_bytes(upkeep, policy, at)
    is_merged, is_left = _merge(context, path, smaller, least=policy.merge_every)
    if is_left is None:
        is_left = has_many_files(at, upkeep, policy)
    if is_left and is_sparks_time:
        compact(context.spark, path, upkeep, policy, smaller=smaller)
        is_merged = True
    if is_merged:
        context.heads.pop(path)
        failpoint("merge.after_rewrite")
    return is_merged


def _merge(context: TableRun, path: tuple[str, ...], smaller: int, *, least: int) -> tuple[bool, bool | None]:
    """Merge a table's files on the driver, if they are many enough.

    Returns:
        Whether files were merged, and whether a file with many dead rows is too large for the driver; None if the
        driver cannot merge files of this table.
    """
    policy, upkeep, at = context.policy, context.pipeline.upkeep, context.head(path)
    try:
        files = mart_files(context, path)
        if not isinstance(files, NeedsSpark):
            dead = upkeep.delete_ratio
            merge = choose_merge(files, smaller=smaller, dead_share=dead, most_bytes=policy.merge_bytes)
            if len(merge.rows) + len(merge.places) < least:
                return False, merge.is_left
            if merge_files(context.spark, quote(*path), at, files, merge, file_bytes=policy.file_bytes):
                return True, merge.is_left
    except UNREADABLE:
        pass  # Spark reads the same files, and says what is wrong
    return False, None


def has_many_files(at: TableSnapshot, upkeep: Upkeep, policy: Policy) -> bool:
    """Return whether a table has many small files, or many delete files.

    Args:
        at: the table's newest snapshot.
        upkeep: settings of the declaration.
        policy: thresholds.
    """
    are_small = at.size_bytes < at.data_files * small_bytes(upkeep, policy, at)
    return at.delete_files >= policy.compact_files or (at.data_files >= policy.compact_files and are_small)


def small_bytes(upkeep: Upkeep, policy: Policy, at: TableSnapshot | None = None) -> int:
    """Return the size below which a file counts as small: a share of ``target_file_mb``.

    With a snapshot, the size is also limited by that share of the table and by the cost of opening a file. Files of a
    load are then not rewritten for later batches, even below the target size.

    Args:
        upkeep: settings of the declaration.
        policy: thresholds.
        at: the table's newest snapshot, given by a run; None for maintenance.
    """
    small = int(policy.small_file_share * upkeep.target_file_mb * 1024 * 1024)
    return small if at is None else min(small, int(policy.small_file_share * at.size_bytes), policy.open_cost_bytes)


def span_due(after: int, upto: int, every: int) -> int | None:
    """Return the number of newest batches to compact in an append-only table: tiered compaction.

    After every ``every``ⁿ batches, the last ``every``ⁿ are compacted. A row is rewritten once each time the number of
    batches grows by this factor, and the number of small files stays low.

    Args:
        after: batch of the table before the run's commits.
        upto: batch of the table now.
        every: the factor, 2 or more.

    Returns:
        A power of ``every``; None if no tier is full.
    """
    due, span = None, every
    while after // span < upto // span:
        due, span = span, span * every
    return due


def compact_appended(context: TableRun, after: int, upto: int) -> None:
    """Compact the small files of batches in silver and bronze, at the intervals of :func:`span_due`.

    The driver merges the files of silver if it can. Bronze is compacted from the second tier on, because only a rebuild
    reads its records and only a starting process reads its ledger. Larger files are not rewritten.

    Args:
        context: the table's part of the run.
        after: batch of the table before the run's commits.
        upto: batch of the table now.
    """
    policy, upkeep = context.policy, context.pipeline.upkeep
    span = span_due(after, upto, policy.compact_every)
    if span is None:
        return
    context.tell("compact small files")
    newest = f"{r.BATCH} > {(upto // span - 1) * span}"
    for path in (context.changes,) if span == policy.compact_every else (context.changes, context.bronze):
        smaller = small_bytes(upkeep, policy, context.head(path))
        is_left: bool | None = None
        if path == context.changes:
            _, is_left = _merge(context, path, smaller, least=policy.compact_partition_files)
        if is_left is None:
            _rewrite(context.spark, path, upkeep, policy, smaller, f"where => {literal(newest)}")
        context.heads.pop(path)
        failpoint("merge.after_rewrite")


def compact(spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep, policy: Policy, *, smaller: int) -> int:
    """Merge small files, rewrite files with many deleted rows, and merge the remaining delete files.

    Readers see the same rows before and after. Each of the two rewrites is a separate commit without a bookmark.

    Args:
        spark: a session with the lake.
        path: path of the table.
        upkeep: settings of the declaration; ``delete_ratio`` is the share of deleted rows that counts as many.
        policy: thresholds.
        smaller: size in bytes below which a file counts as small.

    Returns:
        Size in bytes of the rewritten data files.
    """
    rewritten = _rewrite(spark, path, upkeep, policy, smaller)
    call(spark, path, "rewrite_position_delete_files")
    return rewritten


def _rewrite(
    spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep, policy: Policy, smaller: int, *arguments: str
) -> int:
    options = {
        "target-file-size-bytes": str(upkeep.target_file_mb * 1024 * 1024),
        "min-file-size-bytes": str(smaller),
        "delete-ratio-threshold": str(upkeep.delete_ratio),
        "remove-dangling-deletes": "true",
        "min-input-files": str(policy.compact_partition_files),
        "partial-progress.enabled": "false",
    }
    written = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in options.items())
    [done] = call(spark, path, "rewrite_data_files", f"options => map({written})", *arguments).collect()
    return int(done["rewritten_bytes_count"])
