"""The ledger: files that bronze has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LEDGER_FIELDS = ("size_bytes", "modified_ns", "sha256", "same_as", "rows")
"""Ledger fields that :meth:`Ledger.of` expects after path, position and batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """A file in the ledger; ``same_as`` is the path of the file that it duplicates."""

    size_bytes: int
    modified_ns: int
    sha256: str
    same_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The files that bronze has: a set, not a high-water mark.

    Attributes:
        files: path -> size, time and content of the file.
        places: path -> position, for files with records.
        again: (path under which the content came first, position, batch) of each later name of known content.
    """

    files: dict[str, KnownFile] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    again: list[tuple[str, str, int]] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str, int, int, int, str, str | None, int]]) -> Ledger:
        """Build a ledger from rows of path, position, batch and ``LEDGER_FIELDS``."""
        ledger = cls()
        ledger.add(rows)
        return ledger

    def add(self, rows: Iterable[tuple[str, str, int, int, int, str, str | None, int]]) -> None:
        """Add rows, as for :meth:`of`."""
        for path, position, batch, size, modified, sha, same_as, count in rows:
            self.files[path] = KnownFile(size_bytes=size, modified_ns=modified, sha256=sha, same_as=same_as)
            if count:
                self.places[path] = position
            if same_as is not None:
                self.again.append((same_as, position, batch))

    @property
    def repeated(self) -> int:
        """Return the number of files whose content another file had before them."""
        return len(self.files) - len({file.sha256 for file in self.files.values()})

    @property
    def reordered_in(self) -> int:
        """Return the newest batch in which a new name moved records to an earlier position; 0 without one."""
        return max((batch for first, position, batch in self.again if self.moves(first, position)), default=0)

    def moves(self, first: str | None, position: str) -> bool:
        """Return True if a name at ``position`` moves the records of file ``first`` to an earlier position."""
        return first in self.places and position < self.places[first]


@dataclass(slots=True)
class Unchanged:
    """Counts the files that match the ledger during a listing, so that the listing holds only the others.

    Attributes:
        ledger: files that bronze has.
        several: True if declared places may overlap, so that a file can be listed twice.
        count: number of files with the size and time that the ledger has.
    """

    ledger: Ledger
    several: bool
    count: int = 0
    _met: set[str] = field(default_factory=set)

    def has(self, path: str, size_bytes: int, modified_ns: int) -> bool:
        """Return True if the file matches the ledger, and count it.

        Args:
            path: path of the file.
            size_bytes: its size now.
            modified_ns: its modification time now, in nanoseconds since 1970.
        """
        known = self.ledger.files.get(path)
        if known is None or (known.size_bytes, known.modified_ns) != (size_bytes, modified_ns):
            return False
        if self.several and path in self._met:
            return True
        if self.several:
            self._met.add(path)
        self.count += 1
        return True
