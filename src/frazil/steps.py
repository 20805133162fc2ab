"""The steps of a run as frozen values: ``plan`` builds them, ``runner`` does them, ``explain`` describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from frazil.sources.base import NewFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """Append the records of new files, and the files themselves, to bronze in one commit."""

    table: str
    batch: int
    files: tuple[NewFile, ...]
    duplicates: tuple[NewFile, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to read."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalize:
    """Turn bronze batches ``after < batch <= upto`` into typed changes and quarantined records.

    With ``rebuild`` the changes are computed from all of bronze and replace the table; ``reason`` says why.
    """

    table: str
    after: int
    upto: int
    rebuild: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldChanges:
    """Fold the changes before a horizon into the baseline of silver, and remove their records from bronze.

    Attributes:
        table: the source table.
        before: the horizon, a time in UTC as text.
        days: the declared retention in days; 0 completes a fold that was killed.
    """

    table: str
    before: str
    days: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMart:
    """Bring one mart of ``rows`` rows from batch ``after`` to batch ``upto``.

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
class AddColumn:
    """Add a column; existing rows have NULL in it."""

    column: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """Give a column another name; it keeps its id in Iceberg, and no file is rewritten."""

    column: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WidenColumn:
    """Give a column a wider type; no file is rewritten."""

    column: str
    before: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSortOrder:
    """Set the columns that sort new files; an empty tuple turns sorting off."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperty:
    """Set a table property; ``format-version`` is one."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveProperty:
    """Remove a table property."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLiveView:
    """Create, rename or drop the live view of a mart; None means no view."""

    before: str | None
    after: str | None


Alteration: TypeAlias = (
    AddColumn | RenameColumn | WidenColumn | SetSortOrder | SetProperty | RemoveProperty | SetLiveView
)
"""A change of a table that keeps its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """Alter a table before its next batch is written; no row changes.

    Attributes:
        table: the source table.
        name: namespace and name of the altered table.
        mart: name of the mart; empty for bronze, silver and quarantine.
        changes: the alterations, in order.
    """

    table: str
    name: str
    mart: str = ""
    changes: tuple[Alteration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshGold:
    """Recompute an aggregate after a change of its marts.

    Attributes:
        name: the aggregate.
        inputs: (mart, batch) of each mart that it reads, directly or through other aggregates.
        is_incremental: recompute only the groups that new batches touched, where possible.
        rebuild: replace the rows although no snapshot says which batches they are made of.
    """

    name: str
    inputs: tuple[tuple[str, int], ...]
    is_incremental: bool = False
    rebuild: bool = False


Step: TypeAlias = FoldChanges | Ingest | Normalize | UpdateMart | AlterTable | RefreshGold
