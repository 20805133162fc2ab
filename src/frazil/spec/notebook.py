"""Values as HTML for notebooks: tables and lines of escaped text."""

from __future__ import annotations

import unicodedata
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_TEXT: Final = 500
_HIDDEN: Final = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Kinds of characters that a page does not show, or that change how it shows others."""


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
    """Return a text with control and direction characters as codes, such as ``⟨U+202E⟩``; line feeds stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟨U+{ord(sign):04X}⟩" if _is_hidden(sign) else sign for sign in text)


def _is_hidden(sign: str) -> bool:
    return sign not in "\n\t" and unicodedata.category(sign) in _HIDDEN
