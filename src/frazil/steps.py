"""What can happen in a run, as frozen values: ``plan`` builds them, ``engine`` does them, ``explain`` tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from frazil.bronze.layout import NewFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeFiles:
    """Append the records of new files, and the files themselves, to bronze in one commit."""

    table: str
    batch: int
    files: tuple[NewFile, ...]
    duplicates: tuple[NewFile, ...]
    deferred: tuple[tuple[str, str], ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to read."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refine:
    """Turn bronze batches ``after < batch <= upto`` into typed changes and quarantined records.

    With ``rebuild`` the changes are made anew from all of bronze and replace what is there.
    """

    table: str
    after: int
    upto: int
    rebuild: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMart:
    """Bring one mart, of so many rows, from batch ``after`` to batch ``upto``; with ``rebuild`` from all changes."""

    table: str
    mart: str
    after: int
    upto: int
    rebuild: bool = False
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshGold:
    """Compute an aggregate anew because one of its marts moved."""

    name: str
    inputs: tuple[tuple[str, int], ...]


Step: TypeAlias = TakeFiles | Refine | UpdateMart | RefreshGold
