"""Verdicts of a batch for each of its keys, as columns of a folded key.

The Spark fold computes them in SQL, the Arrow fold in arrays. They decide which rows of the mart are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.marts import late
from frazil.spec import Current, History

if TYPE_CHECKING:
    from frazil.marts.fold_spec import FoldSpec

LATE: Final = "_cdc_late"
"""Number of late changes of the key."""
RECOMPUTE: Final = "_cdc_recompute"
"""Whether the key's rows must be recomputed from all its changes."""
SUPERSEDED: Final = "_cdc_superseded"
"""Whether all its changes are late."""
IS_LIVE: Final = "_cdc_is_live"
"""Whether its newest change is an upsert."""
DELETE_ONLY: Final = "_cdc_delete_only"
"""Whether all its changes are deletes."""

KINDS: Final = (RECOMPUTE, SUPERSEDED, IS_LIVE, DELETE_ONLY, late.IN_TARGET, late.LIVED)
"""The boolean columns, by which keys are counted."""

REPLACED: Final = f"({RECOMPUTE} OR ({late.IN_TARGET} AND NOT {SUPERSEDED}))"
"""SQL condition of a folded key whose rows in the mart are replaced."""


def verdict_sql(
    mart: Current | History, spec: FoldSpec, *, compares: bool, newest_time: int | None = None
) -> list[str]:
    """Write the aggregates ``_cdc_late``, ``_cdc_recompute`` and ``_cdc_superseded`` of a key's changes.

    Args:
        mart: the mart.
        spec: the table's parts.
        compares: the changes have the columns of :func:`frazil.marts.late.with_prior_order`; else no change is late.
        newest_time: greatest event time of earlier batches in microseconds; None if unknown.
    """
    is_late = late.is_late(spec) if compares else "false"
    recompute = f"bool_or({is_late})"
    if isinstance(mart, History) and mart.bitemporal:
        recompute = "true"  # a bitemporal history keeps all earlier rows
    elif isinstance(mart, History) and compares:
        recompute = f"bool_or({late.is_not_after(spec, newest_time)} OR {is_late})"
    elif isinstance(mart, Current) and mart.deletes == "hard" and not spec.fills:
        # An upsert with every column needs no older change, so a late change is dropped.
        recompute = "false"
    return [f"count_if({is_late}) AS {LATE}", f"{recompute} AS {RECOMPUTE}", f"bool_and({is_late}) AS {SUPERSEDED}"]


def replaced_sql(mart: Current | History) -> str:
    """Write the condition that row ``t`` of a mart is replaced, for a key ``k`` with ``REPLACED``."""
    return f"(k.{RECOMPUTE} OR t.is_current)" if isinstance(mart, History) else "true"
