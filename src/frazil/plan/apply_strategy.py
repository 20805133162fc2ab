"""Choose the strategy by which a batch is applied to a mart that has rows.

=============  ===================================================================================================
row_delta      fold the batch on the driver; commit new rows and the positions of replaced ones, without a Spark write
delete_append  delete the replaced rows by key, append the new ones
overwrite      write the whole table without the replaced rows, and the new ones
recompute      write the whole table from all changes
=============  ===================================================================================================
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Strategy: TypeAlias = Literal["row_delta", "delete_append", "overwrite", "recompute"]

OVERWRITE_SHARE: Final = 0.1
"""From this share of a mart's rows on, overwriting it costs less than finding and deleting what is replaced."""

BROADCAST_CHANGES: Final = 2_000_000
"""More changes than this are not compared with the mart at all."""

HELD_BYTES: Final = 64_000_000
"""So much of a batch, and of the rows it replaces, is fetched by the driver at most."""


def choose_strategy(changes: int, size_bytes: int, rows: int, *, takes_row_deltas: bool) -> Strategy:
    """Return the strategy for a batch.

    Args:
        changes: changes of the batch.
        size_bytes: memory that they and the rows they replace take, about.
        rows: rows of the mart.
        takes_row_deltas: row deltas can be written to the mart's table.
    """
    if changes > BROADCAST_CHANGES:
        return "recompute"
    if changes > overwrite_from(rows):
        return "overwrite"
    return "row_delta" if takes_row_deltas and size_bytes <= HELD_BYTES else "delete_append"


def overwrite_from(rows: int) -> int:
    """Return the most changes that do not overwrite a mart of so many rows."""
    return min(int(OVERWRITE_SHARE * rows), BROADCAST_CHANGES)
