"""What can happen in a run, as frozen values: ``plan`` builds them, ``engine`` does them, ``explain`` tells them."""

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

    With ``rebuild`` the changes are computed from all of bronze and replace what is there; ``reason`` says why.
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
        table: its source table.
        before: the horizon, as text of a time in UTC.
        days: the declared retention; 0 where only the end of a fold that was killed is left to do.
    """

    table: str
    before: str
    days: int = 0


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
    """Sort the files that are written from now on; by no columns for no order."""

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
    """Create, rename or drop the live view of a mart; None for no view."""

    before: str | None
    after: str | None


Alteration: TypeAlias = (
    AddColumn | RenameColumn | WidenColumn | SetSortOrder | SetProperty | RemoveProperty | SetLiveView
)
"""A change of a table that leaves its rows as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """Alter a table before its next batch is written; no row changes.

    Attributes:
        table: its source table.
        name: namespace and name of the table.
        mart: name of the mart that it is; empty for bronze, silver and quarantine.
        changes: what to alter, in order.
    """

    table: str
    name: str
    mart: str = ""
    changes: tuple[Alteration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshGold:
    """Compute an aggregate again because one of its marts has changed.

    Attributes:
        name: the aggregate.
        inputs: (mart, batch) of each mart that it is computed from, itself and through other aggregates.
        is_incremental: only the groups that the marts' new batches touched are computed, where that can be.
    """

    name: str
    inputs: tuple[tuple[str, int], ...]
    is_incremental: bool = False


Step: TypeAlias = FoldChanges | Ingest | Normalize | UpdateMart | AlterTable | RefreshGold
