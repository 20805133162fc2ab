"""What an erase was asked for, and what it did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Whom an erase is about: keys as texts, see :func:`frazil.erase.subjects.parse_key`, or a condition, or both."""

    table: str
    keys: tuple[str, ...] = ()
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedLayer:
    """One table of the lake in an erase.

    Attributes:
        table: namespace and name.
        role: what it is for.
        rows: rows of the subjects; None for an aggregate, which is computed again.
        snapshots: older snapshots that go.
        refs: branches and tags that go.
        orphans: files that nothing referred to and that went; None before the erase.
    """

    table: str
    role: str
    rows: int | None
    snapshots: int
    refs: tuple[str, ...]
    orphans: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseProof:
    """What a scan of everything that is left found.

    Attributes:
        rows: rows of all tables in which a key was looked for.
        files: files of the lake whose bytes were looked through; 0 where they cannot be read without Spark.
        bytes_searched: all keys were looked for as bytes, too: those that are texts of six characters or more.
        by_hash: keys of an erase that was killed, of which only the hashes are known: they were looked for as rows and
            bounds, and not as texts in other columns and bytes.
        found: (place, how often) of what was found; empty is the proof.
    """

    rows: int
    files: int
    bytes_searched: bool
    by_hash: int = 0
    found: tuple[tuple[str, int], ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReport:
    """What an erase would do, or did.

    Attributes:
        table: the source table.
        erase_id: names the erase; empty for one that was not done.
        subjects: number of keys, those that they were changed from or to among them.
        layers: every table, in the order of the data.
        files: files at the source that hold records of the subjects, the first thousand.
        unseen: files that may hold such records too, and whose store could not be asked; the first thousand.
        folded: files at the source that may hold such records, which nobody knows any more since records of them were
            folded by ``retention``; the first thousand.
        rewritten: landing files that Frazil wrote, and in which nothing is left of such records but their places.
        removed: landing files that Frazil wrote, and that are gone.
        resumed: an erase that was killed was ended, too.
        proof: what a scan of all remaining files found; None before the erase.
        receipt: path or address of the receipt; None before the erase.
    """

    table: str
    subjects: int
    layers: tuple[ErasedLayer, ...]
    files: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()
    erase_id: str = ""
    rewritten: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    resumed: bool = False
    proof: EraseProof | None = None
    receipt: str | None = None
