"""Parts of nested types: ``array<…>`` and ``struct<name:…,…>``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ARRAY, STRUCT = "array", "struct"
_OPEN, _CLOSE = "<(", ">)"
_FIELD: Final = re.compile(r"^([^\s:<]*)\s*:?")
"""The name of a field, up to a colon or a blank."""
_NESTED: Final = (ARRAY, STRUCT)


def is_nested(kind: str) -> bool:
    """Return whether a type is an array or a struct."""
    return outer_of(kind) in _NESTED


def outer_of(kind: str) -> str:
    """Return the name of a type without its parts or digits."""
    return kind.partition("<")[0].partition("(")[0].strip().lower()


def inner_of(kind: str) -> str:
    """Return the text between the first ``<`` of a type and its final ``>``; empty for other types."""
    text = kind.strip()
    return text.partition("<")[2][:-1] if "<" in text and text.endswith(">") else ""


def struct_fields(kind: str) -> tuple[tuple[str, str], ...]:
    """Return the names and types of a struct's fields, as written; a name without a type has an empty type."""
    found = []
    for part in _parts(inner_of(kind)):
        name, _, type_name = _FIELD.sub(r"\1:", part.strip(), count=1).partition(":")
        found.append((name, type_name.strip()))
    return tuple(found)


def _parts(text: str) -> Iterator[str]:
    """Split a text at its commas outside of brackets."""
    depth = begin = 0
    for at, sign in enumerate(text):
        depth += (sign in _OPEN) - (sign in _CLOSE)
        if sign == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]
