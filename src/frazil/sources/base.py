"""The contract of a source: what it must deliver, and the values it delivers."""

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
"""Prefix of the positions of records that belong to a copy of the whole table."""

_CHANGE: Final = "1/"


def snapshot_position(place: str) -> str:
    """Return the position of a record in a copy of the whole table: before all changes, ordered by ``place``."""
    return f"{SNAPSHOT}{place}"


def change_position(place: str) -> str:
    """Return the position of a change, ordered by ``place`` as plain text."""
    return f"{_CHANGE}{place}"


def is_snapshot(position: str) -> str:
    """Return a SQL condition that is true for positions made by :func:`snapshot_position`; ``position`` is SQL."""
    return f"startswith({position}, '{SNAPSHOT}')"


def stored_path(uri: str, folder: Path) -> str:
    """Return a path as Frazil shows and stores it: relative to ``folder`` if below it, with ``/`` as separator."""
    prefix = f"{str(folder).rstrip(os.sep)}{os.sep}"
    return uri.removeprefix(prefix).replace(os.sep, "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A listed file.

    Attributes:
        path: identity of the file, as stored in ``_cdc_file``. It is relative to the declaration's folder if the file
            is below it, else absolute.
        uri: local absolute path, or address with its login; use it to open the file.
        name: last part of the path.
        size_bytes: size of the file.
        modified_ns: modification time in nanoseconds since 1970. It detects changed files; it never orders them.
        load: True if the records are a copy of the whole table, False if they are changes.
        position: sortable text that orders the records among those of other files, made by
            :func:`snapshot_position` or :func:`change_position`.
        variant: form of the file, in the terms of its source; opaque to every other module.
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
    """A file that was read once from end to end.

    Attributes:
        sha256: hash of the stored bytes, in hex.
        columns: (column name, Spark type) of the fields in file order; empty if the declaration names them.
        inner: (column name, Spark type) of the fields that :meth:`Source.read` finds inside other fields.
        written: layout of the objects in the fields, if all have the same: see
            :attr:`frazil.formats.json_objects.JsonObjects.written`.
        broken: reason why no record can be read, as for a bad record; None for a readable file.
        same_as: path under which the same content was taken first; None for new content.
        trail: spans of records by the server that wrote them; empty once :attr:`turns` is set.
        turns: stream of records -> offsets at which its second and later eras begin.
        tables: names of the tables that the records belong to; empty where they name none, or the source declares one.
    """

    sha256: str
    columns: tuple[tuple[str, str], ...] = ()
    inner: tuple[tuple[str, str], ...] = ()
    written: tuple[str, ...] = ()
    broken: str | None = None
    same_as: str | None = None
    trail: tuple[Span, ...] = ()
    turns: tuple[tuple[str, tuple[int, ...]], ...] = ()
    tables: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Return ``columns`` and ``inner``."""
        return (*self.columns, *self.inner)


@dataclass(frozen=True, slots=True)
class Listing:
    """Files found at the declared places.

    Attributes:
        files: listed files by position, without those counted in ``unchanged``.
        refused: (path, reason) of files that must not be read.
        passed: (path, reason) of files that do not belong to the source.
        unchanged: number of further files that bronze already has in this version.
    """

    files: tuple[SourceFile, ...]
    refused: tuple[tuple[str, str], ...] = ()
    passed: tuple[tuple[str, str], ...] = ()
    unchanged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDelta:
    """Files that bronze does not have yet.

    Attributes:
        files: files with new content, by position.
        duplicates: files whose content bronze has under another name, ``same_as``.
        deferred: (path, reason) of files that wait for a later run.
        known: number of files at the source that bronze has, by path or by content.
        again: number of files in bronze's ledger whose content was taken before under another path.
        passed: (path, reason) of ignored files.
        reorders: True if a known content came under a name that sorts earlier. Ties may resolve differently, so the
            table must be rebuilt.
        loads_again: paths of new full loads that repeat the name of a known one. Rows missing from them are not
            deleted.
        reordered_in: newest bronze batch with such a reordering; tables built from older batches need a rebuild.
        notes: information for people, such as a renamed table or columns that the source does not send.
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
    """An opened file.

    Attributes:
        reader: yields its records once.
        fields: bronze columns that receive the fields of the records, in file order.
        known: columns that the records carry; None if they carry every column of the table.
        lists: True if records may carry different columns and list them.
        headers: number of records that only name the fields.
        order_field: column with the ``place`` of each record, see :func:`change_position`; None if all records have
            the position of the file.
    """

    reader: RecordReader
    fields: tuple[str, ...]
    known: list[str] | None = None
    lists: bool = False
    headers: int = 0
    order_field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMeaning:
    """The meaning of simple records as plain values, so that Arrow can apply it. It does not cover other records.

    Attributes:
        operation: bronze column with the operation; None if no file has one.
        classes: text in that column -> ``upsert`` or ``delete``.
        unsaid: (prefix of positions, class) of records that may leave the operation out; None if every record needs
            one.
        problem: bronze column that must be NULL in a simple record; None if there is no such column.
        old_keys: key column -> bronze column that must be NULL or equal to the key in a simple record.
        happened: bronze column with the source's time of a delete, as text; None if the source has none. It is
            ``_cdc_file`` if the file name holds the time, see :func:`frazil.spec.model.kinds.dms.time_in_name`.
    """

    operation: str | None
    classes: Mapping[str, str]
    unsaid: tuple[str, str] | None = None
    problem: str | None = None
    old_keys: Mapping[str, str] = field(default_factory=dict)
    happened: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMeaning:
    """How to recognize the records of a table copy in files that also hold changes.

    Attributes:
        operation: bronze column with the operation.
        reads: operations of records that may be part of a copy.
        name: SQL expression that identifies the copy; NULL if the record is not part of one.
        ends: True if records mark the end of a copy, or the declaration says that copies have some rows only.
        time: SQL expression for how the position of a change of the same time would begin, if only times order records
            and a read comes before all changes; NULL for other records.
        is_read: SQL condition for positions of such reads.
    """

    operation: str
    reads: tuple[str, ...]
    name: str
    ends: bool
    time: str
    is_read: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMeaning:
    """How to recognize the snapshots that a source takes of a table again, among its changes.

    Attributes:
        end: bronze column that is not NULL in the last record of a snapshot.
        time: bronze column with the time of a record at the source, as text.
        place: SQL expression for the position that the records of a snapshot begin with. Changes that the snapshot
            contains have smaller positions. Empty or NULL for other records.
        name: the same without what differs between partitions.
        is_whole: True if the declaration says that a missing row was deleted; None if it does not say.
        limit: share of the rows that a whole snapshot may lack.
    """

    end: str
    time: str
    place: str
    name: str
    is_whole: bool | None
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMeaning:
    """How to find the records of one event: some sources send a change of key as a delete and an upsert.

    Attributes:
        place: SQL expression that is equal for the records of one event and unique to them.
        operation: bronze column with the operation.
        deletes: operations of a delete, in lower case.
    """

    place: str
    operation: str
    deletes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMeaning:
    """The meaning of records, as SQL over the columns of bronze.

    Attributes:
        operation: text of the operation, for messages.
        change_class: ``upsert``, ``delete``, or ``truncate`` if the declaration says that the source ``truncates``.
            NULL for an unknown operation, which quarantines the record. The expression may use ``operation`` as
            ``_cdc_op``.
        old_keys: key column -> text of its value before the change; empty unless records carry all key columns.
        problem: text of the reason why a record is not a valid change; NULL for a valid one.
        happened: text of the source's own time of the change; NULL if the record has none.
        made: derived column -> its text. A table has such a column if its declaration names it.
        event: how to find the records of one change; None if each change is one record.
        plain: the same meaning for simple records: no derived column, no change of key. None if only SQL can express
            it.
        load: how to recognize the records of a table copy; None if only load files hold them.
        snapshot: how to recognize snapshots that may lack deleted rows; None if no record ends one.
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
    snapshot: SnapshotMeaning | None = None


class Source(Protocol):
    """The source of one table. It is built from the declaration, reads nothing when built, and can be pickled.

    The delivery contract, on which the laws of silver and marts rely:

    - **Positions order records.** Of two records with one key, the one with the greater (position, row) happened later,
      in whatever order they arrive. Positions never come from arrival or modification times.
    - **Files are immutable.** A known path always has the same content; :meth:`find_new` raises an error if it does
      not. Known content under a new path is a duplicate and is not taken twice.
    - **Nothing is skipped.** A record that cannot be read becomes a bad record with its bytes. A file that cannot be
      read yet waits, with a reason, for a later run.
    - **Reading is repeatable.** The same file and columns give the same records, with the same row numbers.
    """

    def __init__(self, table: Table) -> None:
        """Take the declaration."""

    def list(self, folder: Path) -> Listing:
        """List all files of the source; ``folder`` is the folder of the declaration.

        Raises:
            SourceError: a declared place does not exist or cannot be listed.

        Cost: opens no file.
        """

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have.

        Args:
            folder: folder of the declaration.
            ledger: files that bronze has. The call updates the time of files that were only touched, so that a
                process that keeps the ledger reads them once.

        Raises:
            SourceError: a declared place does not exist or cannot be listed.
            HistoryChangedError: a known file has other content.

        Cost: one pass over the bytes of files that are new or touched.
        """

    def columns(self, files: Sequence[NewFile], existing: Sequence[str]) -> tuple[str, ...]:
        """Return bronze's columns for the fields of the source: existing columns first, then new ones as they appear.

        Raises:
            DeclarationError: nothing names the fields of a file.
        """

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the columns that a file names, with their types; empty if it has no names, None if it cannot be read.

        Cost: reads the beginning or the end of the file.
        """

    def known_fields(self, existing: Mapping[str, str], named: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
        """Return bronze's columns with their types after some files are taken; empty while no field is named.

        If a later file gives a column another type, :func:`frazil.spec.model.types.type_after` decides.

        Args:
            existing: column of bronze -> its type.
            named: result of :meth:`named_fields` for each new file.
        """

    def read(self, file: NewFile, columns: Sequence[str], **limits: int) -> FileRecords:
        """Open a file that is not broken.

        Args:
            file: from :meth:`find_new`.
            columns: bronze's columns, from :meth:`columns`.
            limits: ``block_bytes`` and ``record_bytes`` of the format, for tests.
        """

    def recount(self, uri: str) -> int:
        """Count the records of a file independently of :meth:`read`; an unreadable file counts as one record.

        Raises:
            OSError: the file cannot be read.
        """

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return the meaning of records, as SQL over bronze.

        Args:
            fields: lower-case name of a source field -> its column in bronze.
            position: SQL expression of a record's position.
        """

    def advice(self, named: Sequence[Sequence[tuple[str, str]]]) -> str | None:
        """Return a likely mistake in the source's settings if a declared field is missing; None without a guess.

        Args:
            named: columns that each new file names.
        """

    def reading(self) -> dict[str, Any]:
        """Return the settings that determine the records, as plain values.

        Bronze stores them. After a change of one, the same files would give other records than the lake has. They
        include ``path``, and ``by_place``: True if only the places of files order changes.
        """
