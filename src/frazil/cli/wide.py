"""Tables of any width: as a grid where it fits, else turned, with a column for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.table import Table as Grid
from rich.text import Text

from frazil.cli.console import out
from frazil.cli.show import _cell, grid

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = 3
"""Between two columns."""
_MARGIN = 2


def fitted(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under names; turned where they are wider than the terminal, some rows beside one another.

    Words are never broken, but for those that are longer than a line.
    """
    if not rows or sum(_widths(names, rows)) + _GAP * len(names) <= out.width:
        grid(None, names, rows)
        return
    label = max(cell_len(name) for name in names)
    widths = [max(cell_len(_cell(value).plain) for value in row) for row in rows]
    first = 0
    while first < len(rows):
        last = first + 1
        while last < len(rows) and _turned(label, widths[first : last + 1]) <= out.width:
            last += 1
        _print_turned(names, rows[first:last])
        first = last


def _widths(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[int]:
    columns = zip(*rows, strict=True)
    return [
        max(cell_len(name), *(cell_len(_cell(value).plain) for value in column))
        for name, column in zip(names, columns, strict=True)
    ]


def _turned(label: int, widths: Sequence[int]) -> int:
    return _MARGIN + label + sum(_GAP + width for width in widths)


def _print_turned(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    for _ in rows:
        table.add_column(overflow="fold")
    for name, *values in zip(names, *rows, strict=True):
        table.add_row(Text(name), *map(_cell, values))
    out.print(table)
