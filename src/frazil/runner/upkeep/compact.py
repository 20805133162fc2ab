"""Compact tables: merge small files, and rewrite those of which many rows are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.failpoints import failpoint
from frazil.lake.merge_files import choose_merge, merge_files
from frazil.runner.batch.driver_lookup import UNREADABLE, mart_files
from frazil.spark.gateway import call
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.plan.policy import Policy
    from frazil.runner.table_run import TableRun
    from frazil.spec import Upkeep


def compact_mart(context: TableRun, path: tuple[str, ...], at: TableSnapshot, *, after: int, upto: int) -> bool:
    """Merge the small files of a mart that went from batch ``after`` to ``upto``, where it is time.

    The driver does so every ``merge_every`` batches; what it cannot is left to Spark, every ``compact_every``.

    Returns:
        Whether files were merged.

    Cost: without a Spark job it reads and writes the small files, and those of at most ``merge_bytes`` many of whose
        rows are deleted.
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
    """Merge a table's files on the driver, if they are so many.

    Returns:
        Whether it was done, and whether there is a file with many dead rows that is too large for it; None where the
        driver cannot merge files of this table.
    """
    policy, upkeep, at = context.policy, context.pipeline.upkeep, context.head(path)
    try:
        files = mart_files(context, path)
        if files is not None:
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
    """Return whether a table has many small files, or many files of deletes."""
    are_small = at.size_bytes < at.data_files * small_bytes(upkeep, policy, at)
    return at.delete_files >= policy.compact_files or (at.data_files >= policy.compact_files and are_small)


def small_bytes(upkeep: Upkeep, policy: Policy, at: TableSnapshot | None = None) -> int:
    """Return the size from which on a file is not rewritten for new rows: a share of ``target_file_mb``.

    A run gives the table's snapshot: then it is no more than that share of the table, and than what opening a file
    costs. The files of a load are not rewritten for the batches that follow, though they could be larger.
    """
    small = int(policy.small_file_share * upkeep.target_file_mb * 1024 * 1024)
    return small if at is None else min(small, int(policy.small_file_share * at.size_bytes), policy.open_cost_bytes)


def span_due(after: int, upto: int, every: int) -> int | None:
    """Return how many of the newest batches to compact in a table that only grows: tiered compaction.

    After every ``every``ⁿ batches, the last ``every``ⁿ are compacted. So a row is rewritten once each time
    that the number of batches grows by this factor, and however many they become, few files are small.

    Args:
        after: the batch that the table stood at.
        upto: the one that it stands at now.
        every: the factor, 2 or more.

    Returns:
        A power of ``every``; None where no tier is full.
    """
    due, span = None, every
    while after // span < upto // span:
        due, span = span, span * every
    return due


def compact_appended(context: TableRun, after: int, upto: int) -> None:
    """Compact the small files that batches have left in silver and bronze, where :func:`span_due` says so.

    Those of silver the driver merges, if it can. Bronze is compacted from the second tier on: its records are read by
    a rebuild alone, and its ledger by a process that begins. Files that are not small are not rewritten.
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
    """Merge files of fewer than ``smaller`` bytes, rewrite those with many deleted rows, merge the rest of the deletes.

    Many is more than ``delete_ratio``. Readers see the same rows before and after; each of the two rewrites is a
    commit of its own, without a bookmark.

    Returns:
        The size in bytes of the data files that were written again.
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
