"""What a batch means for each of its keys: the columns that stand beside a folded key.

The Spark fold computes them as SQL, the Arrow fold as arrays; both decide by them which rows go and which come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.marts import late
from frazil.spec import Current, History

if TYPE_CHECKING:
    from frazil.marts.fold_spec import FoldSpec

LATE: Final = "_cdc_late"
"""How many changes of the key are late."""
RECOMPUTE: Final = "_cdc_recompute"
"""Whether the key's rows must be made from all its changes."""
SUPERSEDED: Final = "_cdc_superseded"
"""Whether all its changes are late."""
IS_LIVE: Final = "_cdc_is_live"
"""Whether its newest change is an upsert."""
DELETE_ONLY: Final = "_cdc_delete_only"
"""Whether no upsert is among its changes."""

KINDS: Final = (RECOMPUTE, SUPERSEDED, IS_LIVE, DELETE_ONLY, late.IN_TARGET, late.LIVED)
"""The columns that are true or false: keys are counted by them."""

REPLACED: Final = f"({RECOMPUTE} OR ({late.IN_TARGET} AND NOT {SUPERSEDED}))"
"""SQL condition of a folded key: the mart loses rows of it."""


def verdict_sql(
    mart: Current | History, spec: FoldSpec, *, compares: bool, newest_time: int | None = None
) -> list[str]:
    """Write the aggregates ``_cdc_late``, ``_cdc_recompute`` and ``_cdc_superseded`` of a key's changes.

    Args:
        mart: the mart.
        spec: the table's parts.
        compares: the changes have the columns of :func:`frazil.marts.late.with_prior_order`; otherwise none is late.
        newest_time: greatest event time of earlier batches in microseconds, as far as it is known.
    """
    is_late = late.is_late(spec) if compares else "false"
    recompute = f"bool_or({is_late})"
    if isinstance(mart, History) and mart.bitemporal:
        recompute = "true"  # what was known before stays, so no row goes for good
    elif isinstance(mart, History) and compares:
        recompute = f"bool_or({late.is_not_after(spec, newest_time)} OR {is_late})"
    elif isinstance(mart, Current) and mart.deletes == "hard" and not spec.fills:
        # A whole row needs no older one, so a late change simply drops out.
        recompute = "false"
    return [f"count_if({is_late}) AS {LATE}", f"{recompute} AS {RECOMPUTE}", f"bool_and({is_late}) AS {SUPERSEDED}"]


def replaced_sql(mart: Current | History) -> str:
    """Write which rows ``t`` of a mart are replaced, of a key ``k`` for which ``REPLACED`` holds."""
    return f"(k.{RECOMPUTE} OR t.is_current)" if isinstance(mart, History) else "true"
