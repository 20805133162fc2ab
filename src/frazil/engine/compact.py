"""Keep reading cheap: merge small files, and rewrite those of which many rows are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.spec.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.heads import Head
    from frazil.spec import Upkeep

EVERY: Final = 12
"""Batches after which a run looks whether a table's files are to be merged: what cannot be merged further, such as
the one file of each of many partitions, is not tried again with every batch."""

_MANY: Final = 8
_SMALL: Final = 1 / 4


def is_due(at: Head, upkeep: Upkeep, *, after: int, upto: int) -> bool:
    """Tell whether a table that went from batch ``after`` to ``upto`` is to be compacted.

    It is when it passed another dozen of batches, and has many small files or many files of deletes.
    """
    files, deletes = (int(at.summary.get(f"total-{kind}-files", 0)) for kind in ("data", "delete"))
    are_small = _size(at) < files * small_bytes(upkeep, at)
    return after // EVERY < upto // EVERY and (deletes >= _MANY or (files >= _MANY and are_small))


def small_bytes(upkeep: Upkeep, at: Head | None = None) -> int:
    """Give the size from which on a file is not written again for new rows: a quarter of what compaction aims at.

    Given where a table stands, a quarter of the table if that is less: its largest file is not written again for
    each dozen of small batches.
    """
    target = upkeep.target_file_mb * 1024 * 1024
    return int(_SMALL * (target if at is None else min(target, _size(at))))


def compact(spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep, *, smaller: int) -> None:
    """Merge files of fewer than ``smaller`` bytes, rewrite those with many deleted rows, merge the rest of the deletes.

    Many is more than ``delete_ratio``. Readers see the same rows before and after; each of the two rewrites is a
    commit of its own, without a bookmark.
    """
    options = {
        "target-file-size-bytes": str(upkeep.target_file_mb * 1024 * 1024),
        "min-file-size-bytes": str(smaller),
        "delete-ratio-threshold": str(upkeep.delete_ratio),
        "remove-dangling-deletes": "true",
        "partial-progress.enabled": "false",
    }
    written = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in options.items())
    call, table = f"CALL {quote(path[0])}.system", literal(".".join(quote(part) for part in path[1:]))
    spark.sql(f"{call}.rewrite_data_files(table => {table}, options => map({written}))")
    spark.sql(f"{call}.rewrite_position_delete_files(table => {table})")


def _size(at: Head) -> int:
    return int(at.summary.get("total-files-size", 0))
