"""Commits of a run on one time axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

WIDTH: Final = 260
_TICKS: Final = 4
_STEPS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """Places on the axis in pixels.

    Attributes:
        ends: where the bar of each time ends; bars begin at the left.
        ticks: (place, seconds) of the marks.
    """

    ends: tuple[float, ...]
    ticks: tuple[tuple[float, int], ...]


def time_axis(began: dt.datetime, times: Sequence[dt.datetime], ended: dt.datetime) -> TimeAxis:
    """Return the places of times on an axis from ``began`` to ``ended``; times outside are at its borders."""
    total = max((ended - began).total_seconds(), 0.001)
    scale = WIDTH / total
    step = next((step for step in _STEPS if total / step <= _TICKS), int(total // _TICKS) + 1)
    return TimeAxis(
        ends=tuple(round(min(max((at - began).total_seconds(), 0), total) * scale, 1) for at in times),
        ticks=tuple((round(at * scale, 1), at) for at in range(0, int(total) + 1, step)),
    )
