"""Choose the strategy by which a batch is applied to a mart.

=============  ===================================================================================================
load           write all rows of a mart that has none
recompute      overwrite the whole table with rows made from all changes
overwrite      overwrite the whole table with its rows without the replaced ones, and the new rows
delete_append  delete the replaced rows by key, append the new ones
row_delta      fold the batch on the driver; commit new rows and the positions of replaced ones, without a Spark write
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
        rows: its rows, about.
        size_bytes: bytes of its data files.
        is_new: it has no snapshot yet.
        takes_row_deltas: row deltas can be written to it.
    """

    rows: int
    size_bytes: int
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
    if changes > overwrite_from(mart.rows, policy):
        return "overwrite"
    # Each key may bring one row of the mart along, with values that the batch does not have.
    held_bytes = changes_bytes + changes * policy.unpacked_factor * mart.size_bytes // max(mart.rows, 1)
    return "row_delta" if mart.takes_row_deltas and held_bytes <= policy.row_delta_bytes else "delete_append"


def overwrite_from(rows: int, policy: Policy = DEFAULT_POLICY) -> int:
    """Return the most changes that do not overwrite a mart of so many rows."""
    return min(int(policy.overwrite_share * rows), policy.broadcast_changes)
