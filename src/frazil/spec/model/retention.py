"""How long a table keeps its changes one by one."""

from __future__ import annotations

from pydantic import Field

from frazil.spec.model.base import Spec


class Retention(Spec):
    """What is older than the horizon is folded into a baseline."""

    changes_days: int = Field(
        ge=1,
        description="Changes older than so many days, by the first column of sequence_by, are folded into a baseline.",
    )
