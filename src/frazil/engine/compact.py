"""Keep reading cheap: merge small files, and rewrite those of which many rows are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.spec.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.heads import Head
    from frazil.spec import Upkeep

MANY_FILES: Final = 32
"""Small files, or files of deletes, that a table gathers before a run merges them."""


def is_scattered(at: Head, upkeep: Upkeep) -> bool:
    """Tell of a table whether it has gathered many small files, or many files of deletes.

    What :func:`compact` leaves is not scattered, so a file is merged once in some dozen batches.
    """
    files, deletes = (int(at.summary.get(f"total-{kind}-files", 0)) for kind in ("data", "delete"))
    size = int(at.summary.get("total-files-size", 0))
    are_small = size < files * upkeep.target_file_mb * 1024 * 1024 / 4
    return deletes >= MANY_FILES or (files >= MANY_FILES and are_small)


def compact(spark: SparkSession, path: tuple[str, ...], upkeep: Upkeep) -> None:
    """Merge small files, rewrite files with more deleted rows than ``delete_ratio``, and merge the rest of the deletes.

    Readers see the same rows before and after; each of the two rewrites is a commit of its own, without a bookmark.
    """
    options = {
        "target-file-size-bytes": str(upkeep.target_file_mb * 1024 * 1024),
        "delete-ratio-threshold": str(upkeep.delete_ratio),
        "remove-dangling-deletes": "true",
        "partial-progress.enabled": "false",
    }
    written = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in options.items())
    call, table = f"CALL {quote(path[0])}.system", literal(".".join(quote(part) for part in path[1:]))
    spark.sql(f"{call}.rewrite_data_files(table => {table}, options => map({written}))")
    spark.sql(f"{call}.rewrite_position_delete_files(table => {table})")
