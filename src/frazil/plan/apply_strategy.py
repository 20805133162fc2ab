"""Choose the strategy that applies a batch to a mart.

=============  ===================================================================================================
load           write all rows of an empty mart
recompute      overwrite the table with rows computed from all changes
row_delta      fold the batch on the driver; commit new rows and the positions of replaced ones, without a Spark write
delete_append  delete the replaced rows by key, append the new ones
overwrite      overwrite the table with its remaining rows and the new rows
=============  ===================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.plan.policy import DEFAULT_POLICY

if TYPE_CHECKING:
    from frazil.plan.policy import Policy, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class MartStats:
    """Size and format of a mart's table.

    Attributes:
        rows: rows in its data files.
        dead: approximate number of deleted ones among them.
        size_bytes: bytes of its data files.
        is_new: the table has no snapshot yet.
        takes_row_deltas: the format allows row deltas.
    """

    rows: int
    size_bytes: int
    dead: int = 0
    is_new: bool = False
    takes_row_deltas: bool = False


def choose_strategy(
    changes: int | None, changes_bytes: int, mart: MartStats, policy: Policy = DEFAULT_POLICY
) -> Strategy:
    """Return the strategy for a batch.

    Args:
        changes: changes of the batch; None if the mart is computed from all changes of its table.
        changes_bytes: memory of the changes.
        mart: the mart's table.
        policy: thresholds.
    """
    if mart.is_new:
        return "load"
    if changes is None:
        return "recompute"
    if policy.strategy is not None:
        return "delete_append" if policy.strategy == "row_delta" and not mart.takes_row_deltas else policy.strategy
    if changes > policy.broadcast_changes:
        return "recompute"
    # Each key may need one row of the mart, for values that the batch does not have.
    held_bytes = changes_bytes + changes * policy.unpacked_factor * mart.size_bytes // max(mart.rows, 1)
    is_small = mart.takes_row_deltas and held_bytes <= policy.row_delta_bytes
    by_spark = spark_strategy(changes, mart.rows, policy)
    # A row delta costs as much as the batch, but leaves dead rows; with many of them overwriting pays.
    leaves_many = by_spark == "overwrite" and mart.dead + changes > _dead_rows(mart.rows, policy)
    return "row_delta" if is_small and not leaves_many else by_spark


def spark_strategy(changes: int, rows: int, policy: Policy = DEFAULT_POLICY) -> Strategy:
    """Return Spark's strategy for a batch: ``overwrite`` if it is large, else ``delete_append``.

    Args:
        changes: changes of the batch.
        rows: rows of the mart.
        policy: thresholds.
    """
    if policy.strategy is None and changes > policy.overwrite_share * rows:
        return "overwrite"
    return "delete_append"


def overwrite_from(rows: int, policy: Policy = DEFAULT_POLICY) -> int:
    """Return the maximum number of changes that never overwrites a mart of ``rows`` rows."""
    return min(_dead_rows(rows, policy), policy.broadcast_changes)


def _dead_rows(rows: int, policy: Policy) -> int:
    """Return the maximum number of dead rows of a mart."""
    return max(policy.dead_rows, int(policy.dead_share * rows))
