"""What a plan is built from: where every table stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.bronze.layout import NewFile

SILVER = "silver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a source has to offer that bronze does not hold."""

    files: tuple[NewFile, ...] = ()
    duplicates: tuple[NewFile, ...] = ()
    deferred: tuple[tuple[str, str], ...] = ()
    reorders: bool = False
    """A known content came under a name that stands earlier: ties may fall otherwise, so the table is rebuilt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """Where the tables of one source table stand: the batch of bronze each of them holds, 0 for none."""

    bronze: int = 0
    silver: int = 0
    marts: Mapping[str, int] = field(default_factory=dict)
    taken: Taken = Taken()
    redeclared: frozenset[str] = frozenset()
    """Marts whose declaration changed since they were written, and ``SILVER`` if the changes' did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where a whole lake stands, and what the sources have."""

    tables: Mapping[str, TableState] = field(default_factory=dict)
    gold: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Aggregate -> mart -> batch of the mart it was computed from."""
