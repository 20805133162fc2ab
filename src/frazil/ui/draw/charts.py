"""Drawings of a table: its late changes as a heat map, and its lineage in layers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from frazil.serve.late import LateCell


MOST_DAYS: Final = 40
MOST_ARRIVALS: Final = 30
_LEFT: Final = 96
_TOP: Final = 70
_SIZE: Final = 24
_STEPS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """One cell: ``step`` is 1 for few changes to 5 for most; ``is_late`` if they arrived on a later day."""

    x: float
    y: float
    step: int
    is_late: bool
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The drawing.

    Attributes:
        cells: the cells that have changes.
        days, arrivals: labels at their x, and at their y.
        share: how many of the changes arrived on a later day than their own, from 0 to 1.
        is_cut: whether older days are merged or left out.
    """

    cells: tuple[Heat, ...]
    days: tuple[tuple[float, str], ...]
    arrivals: tuple[tuple[float, str], ...]
    width: float
    height: float
    share: float
    is_cut: bool
    size: float = _SIZE - 3


def draw_heat(found: Sequence[LateCell]) -> HeatMap:
    """Draw the changes of the newest days of arrival; those of older event days share one column, "before"."""
    total = sum(cell.changes for cell in found)
    late = sum(cell.changes for cell in found if _is_late(cell))
    arrivals = sorted({cell.arrival_day for cell in found})
    kept = arrivals[-MOST_ARRIVALS:]
    days = sorted({cell.event_day for cell in found if cell.event_day is not None and cell.arrival_day in kept})
    shown = days[-MOST_DAYS:]
    columns = [*(["before"] if len(shown) < len(days) else []), *(f"{day}" for day in shown)]
    columns += ["no time"] if any(cell.event_day is None for cell in found) else []
    counts: dict[tuple[str, dt.date], tuple[int, bool]] = {}
    for cell in found:
        if cell.arrival_day in kept:
            column = _column(cell.event_day, shown)
            count, is_late = counts.get((column, cell.arrival_day), (0, False))
            counts[column, cell.arrival_day] = count + cell.changes, is_late or _is_late(cell)
    most = max((count for count, _ in counts.values()), default=1)
    cells = tuple(
        Heat(
            x=_LEFT + _SIZE * columns.index(column),
            y=_TOP + _SIZE * kept.index(arrival),
            step=_step(count, most),
            is_late=is_late,
            title=f"{count:,} {'change' if count == 1 else 'changes'} of {column} arrived on {arrival}",
        )
        for (column, arrival), (count, is_late) in counts.items()
    )
    return HeatMap(
        cells=cells,
        days=tuple((_LEFT + _SIZE * place, name) for place, name in enumerate(columns)),
        arrivals=tuple((_TOP + _SIZE * place, f"{day}") for place, day in enumerate(kept)),
        width=_LEFT + _SIZE * len(columns) + 60,
        height=_TOP + _SIZE * len(kept) + 8,
        share=late / total if total else 0.0,
        is_cut=len(kept) < len(arrivals) or len(shown) < len(days),
    )


def _is_late(cell: LateCell) -> bool:
    return cell.event_day is not None and cell.arrival_day > cell.event_day


def _column(day: dt.date | None, shown: Sequence[dt.date]) -> str:
    if day is None:
        return "no time"
    return f"{day}" if day >= shown[0] else "before"


def _step(count: int, most: int) -> int:
    return max(1, min(_STEPS, ceil(_STEPS * log(1 + count) / log(1 + most))))


WIDTH: Final = 190
HEIGHT: Final = 34
_ACROSS: Final = 40
_DOWN: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A node's place: its left upper corner."""

    name: str
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredDrawing:
    """Boxes, and the paths between them in SVG's form; sizes in pixels."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    paths: tuple[str, ...]


def layered(made_of: Mapping[str, Sequence[str]]) -> LayeredDrawing:
    """Return a drawing of nodes, each in the layer after the last of its origins.

    Args:
        made_of: node -> its origins; nodes come after their origins, and origins that are not nodes are left out.
    """
    rank: dict[str, int] = {}
    rows: dict[int, int] = {}
    boxes: dict[str, Box] = {}
    for name, origins in made_of.items():
        layer = rank[name] = max((rank[one] + 1 for one in origins if one in rank), default=0)
        row = rows[layer] = rows.get(layer, -1) + 1
        boxes[name] = Box(name=name, x=layer * (WIDTH + _ACROSS), y=row * (HEIGHT + _DOWN))
    paths = [
        _path(boxes[origin], boxes[name]) for name, origins in made_of.items() for origin in origins if origin in boxes
    ]
    return LayeredDrawing(
        width=max((box.x for box in boxes.values()), default=0) + WIDTH,
        height=max((box.y for box in boxes.values()), default=0) + HEIGHT,
        boxes=tuple(boxes.values()),
        paths=tuple(paths),
    )


def _path(begin: Box, end: Box) -> str:
    x, y, far, to = begin.x + WIDTH, begin.y + HEIGHT // 2, end.x, end.y + HEIGHT // 2
    middle = (x + far) // 2
    return f"M{x} {y}C{middle} {y} {middle} {to} {far} {to}"
