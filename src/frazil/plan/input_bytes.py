"""How much of its sources a plan reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.steps import FoldChanges, Ingest, Normalize, UpdateMart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.steps import Step


def input_bytes(steps: Sequence[Step]) -> int | None:
    """Sum up the files that steps take.

    Returns:
        Bytes, or None where they do not tell how much there is to do: a step reads more than what its table takes
        now, as in a rebuild or where an earlier run was killed.
    """
    takes = {step.table: step for step in steps if isinstance(step, Ingest)}
    for step in steps:
        if isinstance(step, FoldChanges):
            return None
        if isinstance(step, Normalize | UpdateMart) and (
            step.rebuild or step.table not in takes or step.upto > step.after + 1
        ):
            return None
    return sum(step.size_bytes for step in takes.values())
