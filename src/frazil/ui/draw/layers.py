"""Lineage in layers: each node right of all that it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
