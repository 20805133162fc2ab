"""Values as text for people: numbers and sizes, and tables as HTML for notebooks."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_STEP = 1000.0


def counted(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun, such as ``1 file`` or ``12,000 files``.

    Args:
        number: the number.
        one: the noun in the singular.
        many: an irregular plural; None adds an s.
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def sized(size_bytes: float) -> str:
    """Write a number of bytes in a suitable unit: ``0 B``, ``12.0 kB``, ``3.4 MB``."""
    size, units = size_bytes, ["B", "kB", "MB", "GB", "TB"]
    while round(size, 1) >= _STEP and len(units) > 1:
        size /= _STEP
        del units[0]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


_MAX_TEXT: Final = 500
_HOSTILE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
"""Characters that are invisible, change the direction of text, or cannot be encoded."""


def html_table(names: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> str:
    """Return rows as an HTML table, with values as text.

    Args:
        names: names of the columns.
        rows: values of each row, in the order of ``names``.
        title: caption; empty for none.
    """
    caption = f"<caption>{html_text(title)}</caption>" if title else ""
    head = "".join(f"<th>{html_text(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{html_text(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_lines(lines: Iterable[str]) -> str:
    """Return lines of text as HTML; empty without lines."""
    return "".join(f'<div style="white-space: pre-wrap">{html_text(line)}</div>' for line in lines)


def html_text(value: Any) -> str:
    """Return a value as HTML text: NULL for None, the first 500 signs of others, invisible characters as codes."""
    if value is None:
        return "NULL"
    text = f"{value}"
    return escape(visible(text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"))


def visible(text: str) -> str:
    """Return a text with a code such as ``⟦U+202E⟧`` in place of each hostile character; line feeds and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _HOSTILE.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", text)
