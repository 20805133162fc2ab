"""What a source owes Frazil: its delivery contract, and the values in which it delivers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from frazil.formats.records import RecordReader
    from frazil.sources.ledger import Ledger
    from frazil.sources.trail import Span
    from frazil.spec import Table

SNAPSHOT: Final = "0/"
"""What the positions of records begin with that are a copy of the whole table."""

_CHANGE: Final = "1/"


def snapshot_position(place: str) -> str:
    """Return the position of records that are a copy of the whole table: before all changes, then by ``place``."""
    return f"{SNAPSHOT}{place}"


def change_position(place: str) -> str:
    """Return the position of records that are changes, ordered by ``place`` as plain text."""
    return f"{_CHANGE}{place}"


def is_snapshot(position: str) -> str:
    """Return the SQL condition that a position, a SQL expression, is one of :func:`snapshot_position`."""
    return f"startswith({position}, '{SNAPSHOT}')"


def stored_path(uri: str, folder: Path) -> str:
    """Return a path as it is shown and stored: relative to ``folder`` when below it, else absolute; parts by ``/``."""
    prefix = f"{str(folder).rstrip(os.sep)}{os.sep}"
    return uri.removeprefix(prefix).replace(os.sep, "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file that was listed.

    Attributes:
        path: its identity, as stored in ``_cdc_file``: relative to the declaration's folder when below it, else
            absolute.
        uri: how to open it: a local absolute path, or an address with its login.
        name: last part of the path.
        size_bytes: its size.
        modified_ns: modification time in nanoseconds since 1970; tells changed files, never orders them.
        load: its records are a copy of the whole table; else they are changes.
        position: sortable text that orders its records among those of other files: :func:`snapshot_position` or
            :func:`change_position`.
        variant: which of the forms its source knows it has; means nothing to anyone else.
    """

    path: str
    uri: str
    name: str
    size_bytes: int
    modified_ns: int
    load: bool
    position: str
    variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile(SourceFile):
    """A file that was read once from end to end, so its content is known.

    Attributes:
        sha256: of the bytes of the file as they are stored, in hex.
        columns: (column name, Spark type) of its fields in file order; empty where the declaration names them.
        inner: the same of the fields that :meth:`Source.read` finds inside of other fields.
        written: how objects in the fields are written, where all are alike: see
            :attr:`frazil.formats.json.objects.JsonObjects.written`.
        broken: why no record of it can be read, as a reason of a bad record; None for a sound file.
        same_as: path under which the same content was taken first; None for new content.
        trail: which servers its records are of, where they say so, until that is known to :attr:`turns`.
        turns: streams of its records -> offsets at which their second and later eras begin.
    """

    sha256: str
    columns: tuple[tuple[str, str], ...] = ()
    inner: tuple[tuple[str, str], ...] = ()
    written: tuple[str, ...] = ()
    broken: str | None = None
    same_as: str | None = None
    trail: tuple[Span, ...] = ()
    turns: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Return ``columns`` and ``inner``."""
        return (*self.columns, *self.inner)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files there are.

    Attributes:
        files: by position.
        refused, passed: (path, reason) of those that may not be read, and of those of another kind.
        unchanged: how many more there are that bronze knows as they are.
    """

    files: tuple[SourceFile, ...]
    refused: tuple[tuple[str, str], ...] = ()
    passed: tuple[tuple[str, str], ...] = ()
    unchanged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDelta:
    """What a source has to offer that bronze does not hold.

    Attributes:
        files: files with new content, by position.
        duplicates: files whose content is known under another name, at ``same_as``.
        deferred: (path, reason) of files that wait for a later run.
        known: number of files at the source that bronze knows, by path or by content.
        again: number of files in bronze's ledger whose content it had already taken under another path.
        passed: (path, reason) of files that are passed over.
        reorders: a known content came under a name that stands earlier: ties may fall otherwise, so the table is
            rebuilt.
        loads_again: paths of new full loads with the name of one that was taken: what they lack is not deleted.
        reordered_in: newest batch of bronze in which that happened; tables that stand before it are still to be
            rebuilt.
        notes: sentences on what the source leaves out, or is called now; nothing is wrong.
    """

    files: tuple[NewFile, ...] = ()
    duplicates: tuple[NewFile, ...] = ()
    deferred: tuple[tuple[str, str], ...] = ()
    known: int = 0
    again: int = 0
    passed: tuple[tuple[str, str], ...] = ()
    reorders: bool = False
    reordered_in: int = 0
    loads_again: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecords:
    """One file, opened for reading.

    Attributes:
        reader: yields its records once.
        fields: bronze columns that the fields of its records go to, in file order.
        known: the columns that its records carry; None where they carry every column of the table.
        lists: its records may carry different columns, and say which.
        headers: how many of its records only name the fields.
        order_field: column with the ``place`` of each record, see :func:`change_position`; None where the place of a
            record is that of its file.
    """

    reader: RecordReader
    fields: tuple[str, ...]
    known: list[str] | None = None
    lists: bool = False
    headers: int = 0
    order_field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMeaning:
    """What most records mean, said without SQL; of others it says nothing.

    Attributes:
        operation: column of bronze that says what a record does; None where no file has it.
        classes: text in that column -> ``upsert`` or ``delete``.
        unsaid: how positions begin at which a record need not say what it does, and its class there; None for none.
        problem: column that is NULL in such a record; None for none.
        old_keys: key column -> column of bronze that is NULL, or has the text of the key, in such a record.
        happened: column of bronze with the source's own time of a delete as text, ``_cdc_file`` where the name of the
            file has it, see :func:`frazil.spec.model.kinds.dms.time_in_name`; None for none.
    """

    operation: str | None
    classes: Mapping[str, str]
    unsaid: tuple[str, str] | None = None
    problem: str | None = None
    old_keys: Mapping[str, str] = field(default_factory=dict)
    happened: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMeaning:
    """Which records are part of a copy of the whole table, where their file does not say it.

    Attributes:
        operation: column of bronze with what a record does.
        reads: what it says there of a record that may be part of one.
        name: SQL of the copy that such a record is part of; NULL for none.
    """

    operation: str
    reads: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMeaning:
    """Which records are of one change: a change of key may be a delete and an upsert.

    Attributes:
        place: SQL of what they have in common that no other record has.
        operation: column of bronze with what a record does.
        deletes: what it says there of the delete, in lower case.
    """

    place: str
    operation: str
    deletes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMeaning:
    """What records mean, as SQL over the columns of bronze.

    Attributes:
        operation: text that says what a record does, for messages.
        change_class: ``upsert``, ``delete``, or ``truncate`` where the declaration says that the source ``truncates``;
            NULL where the operation is unknown, which quarantines the record. It may refer to ``operation`` as
            ``_cdc_op``.
        old_keys: key column -> text of its value before the change, where the records carry all of them; else empty.
        problem: text that says why a record cannot be a change; NULL for a sound one.
        happened: text of the source's own time of the change; NULL where it says none.
        made: column that no field holds -> its text; a table has it where its declaration names it.
        event: which records are of one change; None where each change is a record.
        plain: the same of records where nothing is made and no key changes; None where it takes SQL to say it.
        load: which records are part of a copy of the table; None where that is those of files that are a load.
    """

    operation: str
    change_class: str
    old_keys: Mapping[str, str]
    problem: str = "CAST(NULL AS string)"
    happened: str = "CAST(NULL AS string)"
    made: Mapping[str, str] = field(default_factory=dict)
    event: EventMeaning | None = None
    plain: PlainMeaning | None = None
    load: LoadMeaning | None = None


class Source(Protocol):
    """One table's source. Made from a table's declaration, without reading anything; can be pickled.

    The delivery contract, on which the laws of silver and marts stand:

    - **Positions order records.** Of two records of one key the one with the greater (position, row) happened later,
      whatever the order of arrival. Positions never come from arrival or modification times.
    - **Files are immutable.** A path once taken has the same content for ever; :meth:`find_new` refuses one that has
      not. Content that was taken under one path and comes under another is a duplicate, never taken twice.
    - **Nothing is skipped.** What cannot be read is a bad record with its bytes, or waits, with a reason, for a later
      run.
    - **Reading is repeatable.** The same file and columns give the same records, with the same row numbers.
    """

    def __init__(self, table: Table) -> None:
        """Take the declaration."""

    def list(self, folder: Path) -> Listing:
        """List all files of the source; ``folder`` is the declaration's.

        Raises:
            SourceError: a declared place is missing or cannot be listed.

        Cost: no file is opened.
        """

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find what bronze does not hold.

        Args:
            folder: the declaration's folder.
            ledger: what bronze knows; learns the new time of files that were only touched, so that a process
                that keeps it reads them once.

        Raises:
            SourceError: a declared place is missing or cannot be listed.
            HistoryChangedError: a known file has other content.

        Cost: one pass over the bytes of files that are new or touched.
        """

    def columns(self, files: Sequence[NewFile], existing: Sequence[str]) -> tuple[str, ...]:
        """Return bronze's columns for the fields of the source: existing ones first, then new ones as they appear.

        Raises:
            DeclarationError: nothing names the fields of a file.
        """

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the columns that a file names, with their types: none where it names none, None if it cannot be read.

        Cost: the beginning or the end of the file.
        """

    def known_fields(self, existing: Mapping[str, str], named: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
        """Return the columns of bronze with their types once some files are taken; none while nothing names a field.

        Where a later file gives a column another type, :func:`frazil.spec.model.types.type_after` says which it has.

        Args:
            existing: those that bronze has.
            named: what :meth:`named_fields` returned for each new file.
        """

    def read(self, file: NewFile, columns: Sequence[str], **limits: int) -> FileRecords:
        """Open a file, not a broken one.

        Args:
            file: from :meth:`find_new`.
            columns: bronze's columns, from :meth:`columns`.
            limits: ``block_bytes`` and ``record_bytes`` of the format, for tests.
        """

    def recount(self, uri: str) -> int:
        """Count the records of a file by other means than :meth:`read`; one that cannot be read at all counts as one.

        Raises:
            OSError: the file cannot be read.
        """

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return what records mean.

        Args:
            fields: lower-case name of a source field -> its column in bronze.
            position: SQL of a record's position.
        """

    def advice(self, named: Sequence[Sequence[tuple[str, str]]]) -> str | None:
        """Return what may be wrong with the source's settings where a declared field is missed; None for nothing.

        Args:
            named: the columns that each new file names.
        """

    def reading(self) -> dict[str, Any]:
        """Return the settings that records depend on, as plain values.

        Bronze keeps them: were one of them changed, a lake that took the files before would hold other records than one
        that takes them now. ``path`` is among them, and ``by_place``: whether the places of files alone order changes.
        """
