"""The day that Frazil takes for today, set by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.runner import planner
from frazil.serve import state

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    import pytest


def set_today(patch: pytest.MonkeyPatch, today: Callable[[], date]) -> None:
    """Make every plan and status of this test fold as if it were another day."""
    for module in (planner, state):
        patch.setattr(module, "today", today)
