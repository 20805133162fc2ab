"""Keep reading cheap: merge small files, and rewrite those of which many rows are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.failpoints import failpoint
from frazil.lake.procedure import call
from frazil.spec.names import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.engine.table_run import TableRun
    from frazil.lake.heads import Head
    from frazil.spec import Upkeep

EVERY: Final = 12
"""Batches after which a run looks whether a table's files are to be merged: what cannot be merged further, such as
the one file of each of many partitions, is not tried again with every batch."""

_MANY: Final = 8
_FEWEST: Final = 5
"""Files of a partition of which fewer are not merged."""
_SMALL: Final = 1 / 4
_OPENING: Final = 4 * 1024 * 1024
"""So many bytes are read in the time it takes to open a file; Iceberg plans reading with the same number."""


def is_due(at: Head, upkeep: Upkeep, *, after: int, upto: int) -> bool:
    """Tell whether a table that went from batch ``after`` to ``upto`` is to be compacted.

    It is when it passed another dozen of batches, and has many small files or many files of deletes.
    """
    files, deletes = (int(at.summary.get(f"total-{kind}-files", 0)) for kind in ("data", "delete"))
    are_small = _size(at) < files * small_bytes(upkeep, at)
    return after // EVERY < upto // EVERY and (deletes >= _MANY or (files >= _MANY and are_small))


def small_bytes(upkeep: Upkeep, at: Head | None = None) -> int:
    """Give the size from which on a file is not written again for new rows: a quarter of what compaction aims at.

    For a run, which gives where the table stands, no more than a quarter of the table, and than what opening a file
    costs: the files of a load are not written again for the batches that follow, though they could be larger.
    """
    small = int(_SMALL * upkeep.target_file_mb * 1024 * 1024)
    return small if at is None else min(small, int(_SMALL * _size(at)), _OPENING)


def span_due(after: int, upto: int) -> int | None:
    """Tell how many of the newest batches are to be merged in a table that only grows.

    Whenever a dozen of batches is full, that dozen; when a gross is, its dozens; and so on. So a row is written again
    once for each time that their number grows twelvefold, and however many they become, few files are small.

    Args:
        after: the batch that the table stood at.
        upto: the one that it stands at now.

    Returns:
        A power of the dozen; None where no dozen became full.
    """
    due, span = None, EVERY
    while after // span < upto // span:
        due, span = span, span * EVERY
    return due


def merge_batches(context: TableRun, after: int, upto: int) -> None:
    """Merge the small files that batches have left in silver and bronze, where :func:`span_due` says so.

    Bronze is merged only of a gross and more: its records are read by a rebuild alone, and its ledger by a process that
    begins. Files that are not small are not written again.
    """
    span = span_due(after, upto)
    if span is None:
        return
    context.tell("merge small files")
    upkeep = context.pipeline.upkeep
    newest = f"{r.BATCH} > {(upto // span - 1) * span}"
    for path in (context.changes,) if span == EVERY else (context.changes, context.bronze):
        _rewrite(context.spark, path, upkeep, small_bytes(upkeep, context.head(path)), f"where => {literal(newest)}")
        context.heads.pop(path)
        failpoint("merge.after_rewrite")


def compact(spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep, *, smaller: int) -> None:
    """Merge files of fewer than ``smaller`` bytes, rewrite those with many deleted rows, merge the rest of the deletes.

    Many is more than ``delete_ratio``. Readers see the same rows before and after; each of the two rewrites is a
    commit of its own, without a bookmark.
    """
    _rewrite(spark, path, upkeep, smaller)
    call(spark, path, "rewrite_position_delete_files")


def _rewrite(spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep, smaller: int, *arguments: str) -> None:
    options = {
        "target-file-size-bytes": str(upkeep.target_file_mb * 1024 * 1024),
        "min-file-size-bytes": str(smaller),
        "delete-ratio-threshold": str(upkeep.delete_ratio),
        "remove-dangling-deletes": "true",
        "min-input-files": str(_FEWEST),
        "partial-progress.enabled": "false",
    }
    written = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in options.items())
    call(spark, path, "rewrite_data_files", f"options => map({written})", *arguments)


def _size(at: Head) -> int:
    return int(at.summary.get("total-files-size", 0))
