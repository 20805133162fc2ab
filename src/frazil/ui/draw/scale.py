"""Time axes: one on which close times stay apart and long quiet spans stay short, and one with the commits of a run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import log10
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Mapping, Sequence

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LABEL_WIDTH: Final = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A time on the axis: ``day`` is empty if the label before it has the same, both if there is no room."""

    x: float
    day: str
    clock: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Places of times between two ends.

    Attributes:
        places: time -> x, in the order of time.
        begin, end: ends of the axis; a span without an end goes to ``end``.
    """

    places: Mapping[dt.datetime, float]
    begin: float
    end: float

    @classmethod
    def of(
        cls, times: Iterable[dt.datetime], begin: float, end: float, *, lead: float = 34, room: float = 130
    ) -> Scale:
        """Place some times, the first ``lead`` after the begin and the last ``room`` before the end.

        A gap is as wide as the logarithm of its time.
        """
        known = sorted({*times})
        gaps = [1 + log10(1 + (late - early).total_seconds() / 60) for early, late in pairwise(known)]
        unit = (end - begin - lead - room) / sum(gaps) if gaps else 0
        places: dict[dt.datetime, float] = {}
        x = begin + lead if gaps else (begin + end) / 2
        for time, gap in zip(known, [*gaps, 0.0], strict=False):
            places[time] = round(x, 1)
            x += gap * unit
        return cls(places=places, begin=begin, end=end)

    def x(self, time: dt.datetime | None, otherwise: float) -> float:
        """Return the place of a time."""
        return otherwise if time is None else self.places.get(time, otherwise)

    def ticks(self) -> tuple[Tick, ...]:
        """Return the labels: the day once, and the time of the day, where there is room."""
        found: list[Tick] = []
        day, free = "", self.begin - _LABEL_WIDTH
        for time, x in self.places.items():
            has_room = x - free >= _LABEL_WIDTH
            this = f"{time.day} {_MONTHS[time.month - 1]} {time.year}"
            found.append(
                Tick(x=x, day=this if has_room and this != day else "", clock=_clock(time) if has_room else "")
            )
            if has_room:
                day, free = this, x
        return tuple(found)


def _clock(time: dt.datetime) -> str:
    return f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}"


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
