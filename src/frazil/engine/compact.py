"""Compact tables: merge small files, and rewrite those of which many rows are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.failpoints import failpoint
from frazil.lake.procedure import call
from frazil.spec.names import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.engine.table_run import TableRun
    from frazil.lake.snapshot import TableSnapshot
    from frazil.plan.policy import Policy
    from frazil.spec import Upkeep


def is_due(at: TableSnapshot, upkeep: Upkeep, policy: Policy, *, after: int, upto: int) -> bool:
    """Return whether a mart that went from batch ``after`` to ``upto`` is to be compacted.

    It is after every ``compact_every`` batches, where it has many small files or many files of deletes.
    """
    files, deletes = (int(at.summary.get(f"total-{kind}-files", 0)) for kind in ("data", "delete"))
    are_small = _size(at) < files * small_bytes(upkeep, policy, at)
    is_time = after // policy.compact_every < upto // policy.compact_every
    return is_time and (deletes >= policy.compact_files or (files >= policy.compact_files and are_small))


def small_bytes(upkeep: Upkeep, policy: Policy, at: TableSnapshot | None = None) -> int:
    """Return the size from which on a file is not rewritten for new rows: a share of ``target_file_mb``.

    A run gives the table's snapshot: then it is no more than that share of the table, and than what opening a file
    costs. The files of a load are not rewritten for the batches that follow, though they could be larger.
    """
    small = int(policy.small_file_share * upkeep.target_file_mb * 1024 * 1024)
    return small if at is None else min(small, int(policy.small_file_share * _size(at)), policy.open_cost_bytes)


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

    Bronze is compacted from the second tier on: its records are read by a rebuild alone, and its ledger by a process
    that begins. Files that are not small are not rewritten.
    """
    policy, upkeep = context.policy, context.pipeline.upkeep
    span = span_due(after, upto, policy.compact_every)
    if span is None:
        return
    context.tell("compact small files")
    newest = f"{r.BATCH} > {(upto // span - 1) * span}"
    for path in (context.changes,) if span == policy.compact_every else (context.changes, context.bronze):
        smaller = small_bytes(upkeep, policy, context.head(path))
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


def _size(at: TableSnapshot) -> int:
    return int(at.summary.get("total-files-size", 0))
