"""One problem of a declaration, and helpers for the messages of the rules."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of the declaration to a value."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a declaration: its place, a message and a hint.

    Attributes:
        path: place in the declaration, such as ``("tables", 0, "keys", 1)``.
        message: one sentence without a full stop.
        hint: the way out, or None.
    """

    path: Path
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


def child(value: object, part: int | str) -> Any:
    """Return an entry of plain data by key or index; None if it does not exist."""
    if isinstance(value, dict):
        return value.get(part)
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is most similar to a misspelt one, ignoring case; None if none is similar."""
    by_lower = {other.lower(): other for other in sorted(known)}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.65)
    return by_lower[near[0]] if near else None


def suggestion(name: str, known: Collection[str]) -> str:
    """Write a hint with the most similar known name, or with all known names."""
    near = nearest(name, known)
    return f"did you mean '{near}'?" if near else f"known are {', '.join(known) or 'none'}"
