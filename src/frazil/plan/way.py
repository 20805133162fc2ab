"""The ways a batch gets into a mart that has rows, and the rule that chooses among them.

=========  =======================================================================================================
small      fetch the batch's rows, and the places of those they replace; add and delete them in one commit
split      delete the replaced rows by their keys, append the new ones
rewrite    write the whole table anew, replaced rows left out
rebuild    make all rows anew from all changes
=========  =======================================================================================================
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Way: TypeAlias = Literal["small", "split", "rewrite", "rebuild"]

REWRITE_SHARE: Final = 0.1
"""From this share of a mart's rows on, writing it anew costs less than finding and marking what goes."""

BROADCAST_CHANGES: Final = 2_000_000
"""More changes than this are not compared with the mart at all."""

HELD_BYTES: Final = 64_000_000
"""So much of a batch, and of the rows it replaces, is fetched by the driver at most."""


def way(changes: int, size_bytes: int, rows: int, *, takes_row_deltas: bool) -> Way:
    """Choose how a batch gets into a mart.

    Args:
        changes: changes of the batch.
        size_bytes: memory that they and the rows they replace take, about.
        rows: rows of the mart.
        takes_row_deltas: the mart's rows can be changed without Spark.
    """
    if changes > BROADCAST_CHANGES:
        return "rebuild"
    if changes > most_marked(rows):
        return "rewrite"
    return "small" if takes_row_deltas and size_bytes <= HELD_BYTES else "split"


def most_marked(rows: int) -> int:
    """Most changes that are marked in a mart of so many rows; with one more it is written anew."""
    return min(int(REWRITE_SHARE * rows), BROADCAST_CHANGES)
