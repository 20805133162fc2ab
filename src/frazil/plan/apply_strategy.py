"""Choose the strategy by which a batch is applied to a mart.

=============  ===================================================================================================
load           write all rows of a mart that has none
recompute      overwrite the whole table with rows made from all changes
row_delta      fold the batch on the driver; commit new rows and the positions of replaced ones, without a Spark write
delete_append  delete the replaced rows by key, append the new ones
overwrite      overwrite the whole table with its rows without the replaced ones, and the new rows
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
    """Size of a mart's table, and what its format allows.

    Attributes:
        rows: rows in its data files.
        dead: how many of them are deleted, about.
        size_bytes: bytes of its data files.
        is_new: it has no snapshot yet.
        takes_row_deltas: row deltas can be written to it.
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
        changes: changes of the batch; None where the mart is made from all changes of its table.
        changes_bytes: memory that they take.
        mart: the table they are applied to.
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
    # Each key may bring one row of the mart along, with values that the batch does not have.
    held_bytes = changes_bytes + changes * policy.unpacked_factor * mart.size_bytes // max(mart.rows, 1)
    is_small = mart.takes_row_deltas and held_bytes <= policy.row_delta_bytes
    by_spark = spark_strategy(changes, mart.rows, policy)
    # A row delta costs what the batch does, but leaves rows to be read that are dead: so many that overwriting pays.
    leaves_many = by_spark == "overwrite" and mart.dead + changes > _dead_rows(mart.rows, policy)
    return "row_delta" if is_small and not leaves_many else by_spark


def spark_strategy(changes: int, rows: int, policy: Policy = DEFAULT_POLICY) -> Strategy:
    """Return the strategy for a batch that Spark compares with a mart of so many rows: ``overwrite`` if it is large."""
    if policy.strategy is None and changes > policy.overwrite_share * rows:
        return "overwrite"
    return "delete_append"


def overwrite_from(rows: int, policy: Policy = DEFAULT_POLICY) -> int:
    """Return the most changes that may leave a mart of so many rows without overwriting it."""
    return min(_dead_rows(rows, policy), policy.broadcast_changes)


def _dead_rows(rows: int, policy: Policy) -> int:
    """Return how many of a mart's rows may be dead."""
    return max(policy.dead_rows, int(policy.dead_share * rows))
