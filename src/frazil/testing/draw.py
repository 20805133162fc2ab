"""Tables drawn with bars: one line a row, ``-`` for NULL, ``""`` for empty text."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


def draw(rows: Iterable[Mapping[str, Any]], columns: Collection[str]) -> str:
    """Draw rows as ``1 | ada | -``, the columns in line.

    Text that would not read back as itself (empty, ``-``, with a bar, a line end, a quote in front or blanks
    around) is drawn as a JSON string.
    """
    cells = [[_cell(row[name]) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in cells)
    return "\n".join(" | ".join(line).rstrip() for line in padded)


def parse(text: str, types: Mapping[str, str]) -> list[dict[str, Any]]:
    """Read a drawing back.

    Args:
        text: the drawing; blank lines and blanks around cells do not matter.
        types: column -> Spark type name, in the order of the drawing. A timestamp without zone is UTC.

    Raises:
        ValueError: a line has another number of cells than there are types, or a number or time is invalid.
    """
    lines = ([cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.strip())
    return [{name: _value(cell, types[name]) for name, cell in zip(types, line, strict=True)} for line in lines]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    plain = value.isprintable() and value == value.strip() and value not in ("", "-")
    if plain and "|" not in value and value[0] != '"':
        return value
    return json.dumps(value, ensure_ascii=not value.isprintable()).replace("|", "\\u007c")


def _value(cell: str, kind: str) -> Any:
    return None if cell == "-" else _READERS.get(kind.partition("(")[0], _text)(cell)


def _text(cell: str) -> str:
    return str(json.loads(cell)) if cell.startswith('"') else cell


def _timestamp(cell: str) -> datetime:
    time = datetime.fromisoformat(cell)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


_READERS: Final[dict[str, Callable[[str], object]]] = {
    "boolean": lambda cell: {"true": True, "false": False}[cell],
    "int": int,
    "bigint": int,
    "float": float,
    "double": float,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "timestamp": _timestamp,
}
