"""The files that bronze knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LEDGER_FIELDS = ("size_bytes", "modified_ns", "sha256", "same_as", "rows")
"""Fields of the ledger that :meth:`Ledger.of` wants, after path, position and batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """A file as the ledger knows it; ``same_as`` names the file it was a duplicate of."""

    size_bytes: int
    modified_ns: int
    sha256: str
    same_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The files that bronze knows, a set and never a high-water mark.

    Attributes:
        files: path -> what is known of the file.
        places: path -> position, of files with records.
        again: (path of the content's first name, position, batch) of names that came later.
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
        """Files whose content was taken before, whether as a repetition or, where only the place counts, once more."""
        return len(self.files) - len({file.sha256 for file in self.files.values()})

    @property
    def reordered_in(self) -> int:
        """Return the newest batch in which a name moved records; 0 for none."""
        return max((batch for first, position, batch in self.again if self.moves(first, position)), default=0)

    def moves(self, first: str | None, position: str) -> bool:
        """Return whether a name at ``position`` moves the records of the file ``first`` to an earlier place."""
        return first in self.places and position < self.places[first]


@dataclass(slots=True)
class Unchanged:
    """Counts files that are as the ledger has them while they are listed, so that a listing holds the others only.

    Attributes:
        ledger: what bronze knows.
        several: places may lie in one another, so a file can be met twice.
        count: how many files there are that bronze knows and that have the size and the time that they had.
    """

    ledger: Ledger
    several: bool
    count: int = 0
    _met: set[str] = field(default_factory=set)

    def has(self, path: str, size_bytes: int, modified_ns: int) -> bool:
        """Return whether a file is one of these, and count it."""
        known = self.ledger.files.get(path)
        if known is None or (known.size_bytes, known.modified_ns) != (size_bytes, modified_ns):
            return False
        if self.several and path in self._met:
            return True
        if self.several:
            self._met.add(path)
        self.count += 1
        return True
