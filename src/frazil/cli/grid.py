"""Tables for a terminal: as a grid if it fits, else vertical, with a column for each row."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.table import Table as Grid
from rich.text import Text

from frazil.cli.console import out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_CELL = 60
_GAP = 3
"""Width between two columns."""
_MARGIN = 2


def grid(title: str | None, names: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> None:
    """Print rows as a grid.

    Args:
        title: heading, or None.
        names: names of the columns.
        rows: values of each row, in the order of ``names``.
        right: columns of numbers, which are aligned right; integers get separators of thousands.
    """
    numbers = set(right)
    table = Grid(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        # Table names and numbers are not wrapped; long texts are.
        is_text = name not in numbers and name != "table"
        table.add_column(
            Text(name), justify="right" if name in numbers else "left", overflow="fold", no_wrap=not is_text
        )
    for row in rows:
        shown = zip(names, row, strict=True)
        table.add_row(*(_cell(f"{of:,}" if name in numbers and isinstance(of, int) else of) for name, of in shown))
    out.print(table)


def fitted(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows of data as a grid, or vertically, several rows beside one another, if the terminal is too narrow.

    Long values are cut. Words are broken only if they are longer than a line.
    """
    rows = [[_shortened(value) for value in row] for row in rows]
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


def _shortened(value: Any) -> Text:
    cell = _cell(value)
    return cell if len(cell) <= _MAX_CELL else Text(f"{cell.plain[: _MAX_CELL - 1]}…")


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("NULL", style="dim")
    if value == "NULL":
        return Text("'NULL'")  # a text, which a pipe could not tell from no value
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(value, dict | list):
        from frazil.serve.query.plain import json_text  # noqa: PLC0415 - most tables do not need it

        value = json_text(value)
    return Text(str(value))
