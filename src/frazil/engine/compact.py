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
    are_small = int(at.summary.get("total-files-size", 0)) < files * _small_bytes(upkeep)
    return after // EVERY < upto // EVERY and (deletes >= _MANY or (files >= _MANY and are_small))


def compact(spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep) -> None:
    """Merge small files, rewrite files with more deleted rows than ``delete_ratio``, and merge the rest of the deletes.

    Small is a quarter of ``target_file_mb``: a file that has grown so large is not written again for new rows.
    Readers see the same rows before and after; each of the two rewrites is a commit of its own, without a bookmark.
    """
    options = {
        "target-file-size-bytes": str(upkeep.target_file_mb * 1024 * 1024),
        "min-file-size-bytes": str(_small_bytes(upkeep)),
        "delete-ratio-threshold": str(upkeep.delete_ratio),
        "remove-dangling-deletes": "true",
        "partial-progress.enabled": "false",
    }
    written = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in options.items())
    call, table = f"CALL {quote(path[0])}.system", literal(".".join(quote(part) for part in path[1:]))
    spark.sql(f"{call}.rewrite_data_files(table => {table}, options => map({written}))")
    spark.sql(f"{call}.rewrite_position_delete_files(table => {table})")


def _small_bytes(upkeep: Upkeep) -> int:
    return int(_SMALL * upkeep.target_file_mb * 1024 * 1024)
