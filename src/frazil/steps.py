"""What can happen in a run, as frozen values: ``plan`` builds them, ``engine`` does them, ``explain`` tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.sources.base import NewFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
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
class Normalize:
    """Turn bronze batches ``after < batch <= upto`` into typed changes and quarantined records.

    With ``rebuild`` the changes are computed from all of bronze and replace what is there; ``reason`` says why.
    """

    table: str
    after: int
    upto: int
    rebuild: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMart:
    """Bring one mart, of so many rows, from batch ``after`` to batch ``upto``.

    With ``rebuild`` its rows are computed from all changes; ``reason`` says why.
    """

    table: str
    mart: str
    after: int
    upto: int
    rebuild: bool = False
    rows: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterMart:
    """Change settings of a mart's table that leave its rows as they are: properties, sort order, live view.

    ``before`` and ``after`` have the settings of :func:`frazil.marts.layout.mart_layout`.
    """

    table: str
    mart: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def settings(self) -> tuple[str, ...]:
        """Names of the settings that change."""
        return tuple(name for name in self.after if self.after[name] != self.before.get(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshGold:
    """Compute an aggregate again because one of its marts has changed."""

    name: str
    inputs: tuple[tuple[str, int], ...]


Step: TypeAlias = Ingest | Normalize | UpdateMart | AlterMart | RefreshGold
