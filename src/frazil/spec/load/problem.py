"""One thing that is wrong with a declaration, and the words shared by the rules that find it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of the declaration to the place that is meant."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where, and the way out.

    Attributes:
        path: place in the declaration, such as ``("tables", 0, "keys", 1)``.
        message: one sentence without a full stop.
        hint: what to do, or None.
    """

    path: Path
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


def child(value: object, part: int | str) -> Any:
    """Take one step down in plain data; None where there is nothing."""
    if isinstance(value, dict):
        return value.get(part)
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None


def nearest(name: str, known: Collection[str]) -> str | None:
    """Find the known name that a misspelt one most likely means; case counts for nothing."""
    by_lower = {other.lower(): other for other in sorted(known)}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.65)
    return by_lower[near[0]] if near else None


def suggestion(name: str, known: Collection[str]) -> str:
    """Name the nearest known name, or list them all."""
    near = nearest(name, known)
    return f"did you mean '{near}'?" if near else f"known are {', '.join(known) or 'none'}"
