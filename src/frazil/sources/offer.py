"""What a source offers that bronze does not hold yet."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frazil.plan.state import Taken
from frazil.sources import dms
from frazil.sources.files import KnownFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from frazil.spec import Table

LEDGER_FIELDS = ("size_bytes", "modified_ns", "sha256", "same_as", "rows")
"""Fields of the ledger that :meth:`Ledger.of` wants, after path, position and batch."""


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

    def moves(self, first: str | None, position: str) -> bool:
        """Tell whether a name at ``position`` moves the records of the file ``first`` to an earlier place."""
        return first in self.places and position < self.places[first]


def offer(table: Table, folder: Path, ledger: Ledger) -> Taken:
    """List what is new at a table's source.

    Args:
        table: the declaration.
        folder: the declaration's folder.
        ledger: what bronze knows; learns the new time of files that were only touched, so that whoever keeps it reads
            them once.

    Raises:
        SourceError: a folder is missing.
        HistoryChangedError: a known file has other content.
    """
    source = table.source
    listing = dms.list_files(source, folder)
    contents = {file.sha256: path for path, file in ledger.files.items() if file.same_as is None}
    take = dms.take(listing, ledger.files, contents, source, time.time())
    for file in take.touched:
        ledger.files[file.path] = replace(ledger.files[file.path], modified_ns=file.modified_ns)
    new, duplicates = take.new, take.duplicates
    if not table.sequence_by and not source.change_seq:
        # Only their place tells two files apart: the same bytes may well be another change.
        again = tuple(replace(file, same_as=None) for file in duplicates)
        new, duplicates = tuple(sorted((*new, *again), key=lambda file: file.position)), ()
    return Taken(
        files=new,
        duplicates=duplicates,
        deferred=(*take.deferred, *listing.refused),
        known=sum(file.path in ledger.files for file in listing.files) + len(take.duplicates),
        again=ledger.repeated,
        passed=listing.passed,
        reorders=any(ledger.moves(file.same_as, file.position) for file in duplicates),
        reordered_in=max(
            (batch for first, position, batch in ledger.again if ledger.moves(first, position)), default=0
        ),
    )
