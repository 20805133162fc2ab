"""The dumps of a table, with their order, times and rows, and the differences between them as a source."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote as percent_encoded

import pyarrow as pa

from frazil.errors import HistoryChangedError, SourceError
from frazil.sources.base import Listing, NewFile, PlainMeaning, RecordMeaning, SourceFile, change_position, stored_path
from frazil.sources.landed_files import lost_files, lost_message
from frazil.sources.new_files import NameOrderError, misordered
from frazil.sources.record_files import CSV, JSON_LINES, PARQUET, RecordFiles, RecordReading, with_types
from frazil.spec.location import expand
from frazil.spec.model.kinds.snapshot import OP, TAKEN_AT
from frazil.spec.model.stores import NO_STORES, is_store, whole_address
from frazil.spec.sql.names import quote
from frazil.storage.base import Found, MissingFolderError, is_hidden
from frazil.storage.files import HashedFile, find, storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from frazil.formats.records import RecordReader
    from frazil.sources.base import SourceDelta
    from frazil.sources.ledger import Ledger
    from frazil.sources.new_files import Content
    from frazil.spec import Table
    from frazil.spec.model.stores import Store
    from frazil.storage.base import Entry


AFTER = " after "
"""Separator of two dump names in the name of a file of differences; dump names never contain it."""


class SnapshotSource(RecordFiles):
    """Files of differences: op i and u are upserts, d is a delete with the values of the old row."""

    settle_seconds = 0.0

    def entries(self, declared: str, folder: Path) -> Iterable[Entry]:
        """Find the files of differences; empty before the first dump."""
        del declared
        place = landing_folder(self.table, folder)
        return find(f"{place}", folder, PARQUET) if place.is_dir() else ()

    def list(self, folder: Path, ledger: Ledger | None = None) -> Listing:
        """List the files of differences; dumps that may be incomplete are refused with a reason."""
        listing = super().list(folder, ledger)
        return replace(listing, refused=(*listing.refused, *unsettled(self.table, folder)))

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have.

        Raises:
            DumpGoneError: bronze has dumps from another landing folder, or from one that was lost.
        """
        found = super().find_new(folder, ledger)
        self.verify_landing(folder, ledger.files, [file.path for file in found.files])
        return found

    def verify_landing(self, folder: Path, taken: Collection[str], new: Collection[str]) -> None:
        """Refuse a folder without differences that were landed and not taken, and a dump compared with none later."""
        verify_dumps(self.table, folder, taken)
        newest = max(map(_dump_of, taken), default=None)
        for path in new:
            is_first = not path.rpartition("/")[2].removesuffix(PARQUET[0]).partition(AFTER)[2]
            # Only the oldest dump is compared with none.
            if newest is not None and is_first and _dump_of(path) > newest:
                raise DumpGoneError(
                    f"table {self.table.name!r}: the lake has dump {newest}, but {_dump_of(path)} was not "
                    f"compared with it: the landing folder {self.table.source.landing} was lost or replaced",
                    hint="restore the landing folder, without newer files; or start over, without the history: "
                    f"frazil drop --select {self.table.name}",
                )

    def inspect(self, hashed: HashedFile, file: SourceFile) -> Content:
        """Inspect a file; dumps of a database have its types."""
        content = super().inspect(hashed, file)
        is_typed = self.table.source.types_fields and not content.broken
        return replace(content, columns=with_types(file, content.columns)) if is_typed else content

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the columns that a file names, with the types of the database; None if it cannot be read."""
        named = super().named_fields(file)
        return with_types(file, named) if named is not None and self.table.source.types_fields else named

    def position(self, path: str, name: str) -> str:
        """Return the position of a dump; its differences from any other dump share it."""
        del path
        return change_position(name.partition(AFTER)[0])

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return the meaning of the op."""
        del position
        said = quote(fields[OP]) if OP in fields else "CAST(NULL AS string)"
        is_upsert = "CASE WHEN _cdc_op IN ('i', 'u') THEN 'upsert' WHEN _cdc_op = 'd' THEN 'delete' END"
        told, classes = fields.get(TAKEN_AT), {"i": "upsert", "u": "upsert", "d": "delete"}
        plain = PlainMeaning(operation=fields.get(OP), classes=classes, happened=told)
        happened = "CAST(NULL AS string)" if told is None else quote(told)
        return RecordMeaning(operation=said, change_class=is_upsert, old_keys={}, happened=happened, plain=plain)

    def reading(self) -> dict[str, Any]:
        """Return the settings that determine the records."""
        source = self.table.source
        # For dumps of a database, the place does not determine the records.
        return {"path": [] if source.path is None else [source.path], "by_place": not self.table.sequence_by}


def _dump_of(path: str) -> str:
    """Return the name of the newer dump of a file of differences."""
    return path.rpartition("/")[2].partition(AFTER)[0]


_TIME: Final = re.compile(
    r"(\d{4})-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?:[T_ -]?(\d{2})[:-]?(\d{2})(?:[:-]?(\d{2}))?)?(?!\d)",
)


class UnreadableDumpError(SourceError):
    """A dump has unreadable records, whose rows would look deleted."""

    code = "FZ220"
    retryable = False

    def __init__(self, path: str, row: int, reason: str) -> None:
        super().__init__(
            f"{path}: record {row} cannot be read ({reason}); its row would look deleted",
            hint="write the dump again, or remove it; then run again",
        )


class DumpGoneError(HistoryChangedError):
    """A dump that is needed for a comparison no longer exists."""

    code = "FZ720"


@dataclass(frozen=True, slots=True)
class Dump:
    """One dump.

    Attributes:
        name: name of its file or folder, encoded for use in file names. It orders the dumps.
        files: files of the dump.
        modified_ns: modification time of the newest file, in nanoseconds since 1970.
    """

    name: str
    files: tuple[Found, ...]
    modified_ns: int

    @property
    def taken_at(self) -> str | None:
        """Return the date or time in the name, as UTC; None if the name has none."""
        for found in _TIME.finditer(self.name.replace("%3A", ":")):
            # Other numbers may come before the date.
            with suppress(ValueError):
                taken = datetime(*(int(part) for part in found.groups(default="0")), tzinfo=UTC)  # type: ignore[misc, arg-type]
                return f"{taken:%Y-%m-%d %H:%M:%S}"
        return None


def landing_folder(table: Table, folder: Path) -> Path:
    """Return the folder with the differences between a table's dumps."""
    return folder / expand(table.source.landing, setting="landing", folder=folder) / table.name


def verify_dumps(table: Table, folder: Path, taken: Collection[str]) -> None:
    """Refuse a landing folder without files that were landed and not taken; ``folder`` is the declaration's.

    Raises:
        DumpGoneError: the message names the first file.
    """
    place = landing_folder(table, folder)
    if lost := lost_files(place, taken):
        raise DumpGoneError(
            lost_message(table.name, place, lost, folder),
            hint="put it back, or its dump; or start over, without the history: "
            f"frazil drop --select {table.name}, and remove {table.source.landing}/{table.name}",
        )


def dumps_folder(table: Table, folder: Path) -> Path:
    """Return the folder with the dumps of a table: the declared ``path``, or the folder of dumps that Frazil takes."""
    source = table.source
    if source.path is not None and _stored(table, folder) is None:
        return folder / expand(source.path, setting="path", folder=folder)
    return landing_folder(table, folder).parent / ".dumps" / table.name


def dumps_of(table: Table, folder: Path) -> list[Dump]:
    """List the complete dumps, in order.

    Raises:
        MissingFolderError: the folder does not exist or cannot be listed.
    """
    return [dump for dump in all_dumps(table, folder) if _is_whole(dump, table)]


def unsettled(table: Table, folder: Path) -> tuple[tuple[str, str], ...]:
    """Return (path, reason) of dumps that may be incomplete; empty if the folder of dumps does not exist."""
    try:
        found = [dump for dump in all_dumps(table, folder) if not _is_whole(dump, table)]
    except MissingFolderError:
        return ()
    reason = f"younger than settle_seconds ({table.source.settle_seconds:g}), so it may still be written"
    return tuple((f"{table.source.path}/{dump.name}", reason) for dump in found)


def _is_whole(dump: Dump, table: Table) -> bool:
    # Dumps that Frazil takes appear when they are complete.
    return bool(table.source.path is None or time.time() - dump.modified_ns / 1e9 >= table.source.settle_seconds)


def all_dumps(table: Table, folder: Path) -> list[Dump]:
    """List all dumps in order, including those that may be incomplete.

    Raises:
        MissingFolderError: the folder does not exist or cannot be listed.
        NameOrderError: the text order of the names differs from the order of their numbers.
    """
    found = _all_dumps(table, folder)
    if wrong := misordered(dump.name for dump in found):
        hint = "write the numbers with leading zeros; if some of the dumps were taken, "
        raise NameOrderError(table.name, *wrong, hint=f"{hint}then frazil drop --select {table.name} and run again")
    return found


def _all_dumps(table: Table, folder: Path) -> list[Dump]:
    if (stored := _stored(table, folder)) is not None:
        return _stored_dumps(stored, table, folder)
    place = dumps_folder(table, folder)
    if not place.is_dir():
        if table.source.path is None:
            return []
        raise MissingFolderError(table.source.path, f"{place}", "no such folder")
    found = []
    for entry in place.iterdir():
        if is_hidden(entry.name):
            continue
        files = tuple(sorted(_files(f"{entry}", folder), key=lambda file: file.uri))
        newest = max((file.modified_ns for file in files), default=0)
        if files:
            found.append(Dump(percent_encoded(entry.name, safe="-._~:"), files, newest))
    return sorted(found, key=lambda dump: dump.name)


def _stored(table: Table, folder: Path) -> str | None:
    """Return the address of dumps in an object store; None for local dumps."""
    path = table.source.path
    place = "" if path is None else expand(path, setting="path", folder=folder)
    return place if is_store(place) else None


def _stored_dumps(address: str, table: Table, folder: Path) -> list[Dump]:
    """Group the objects below an address into dumps, by the next part of their keys."""
    prefix, dumps = f"{whole_address(address)}/", defaultdict[str, list[Found]](list)
    for file in find(address, folder, (*CSV, *JSON_LINES, *PARQUET), table.stores):
        if isinstance(file, Found):
            dumps[file.uri.removeprefix(prefix).partition("/")[0]].append(file)
    return [
        Dump(
            percent_encoded(name, safe="-._~:"),
            tuple(sorted(files, key=lambda file: file.uri)),
            max(file.modified_ns for file in files),
        )
        for name, files in sorted(dumps.items())
    ]


def dump_at(place: str, folder: Path, stores: Mapping[str, Store] = NO_STORES) -> Dump:
    """Return the dump at a file or a folder of files.

    Args:
        place: absolute path, or address in an object store.
        folder: folder of the declaration.
        stores: prefix of addresses -> settings of the object store.

    Raises:
        MissingFolderError: the place has no CSV, JSON lines or Parquet file.
        ObjectStoreError: the store refuses to list the place.
    """
    there = is_store(place) or Path(place).exists()
    files = tuple(sorted(_files(place, folder, stores), key=lambda file: file.uri)) if there else ()
    if not files:
        raise MissingFolderError(place, place, "no CSV, JSON lines or Parquet file there")
    name = PurePosixPath(place).name
    return Dump(percent_encoded(name, safe="-._~:"), files, max(file.modified_ns for file in files))


def _files(place: str, folder: Path, stores: Mapping[str, Store] = NO_STORES) -> Iterator[Found]:
    for file in find(place, folder, (*CSV, *JSON_LINES, *PARQUET), stores):
        if isinstance(file, Found):
            yield file


class DumpReader:
    """Reader of a dump: rows as text, with the same columns for all files."""

    def __init__(self, dump: Dump, table: Table, folder: Path) -> None:
        self._reader, self._folder, self._is_typed = RecordReading(), folder, table.source.types_fields
        self.files = [self._inspected(file) for file in dump.files]
        """The files of the dump, inspected."""
        found: dict[str, tuple[str, str]] = {}
        for file in self.files:
            for name, kind in file.fields:
                found.setdefault(name.lower(), (name, kind))
        self.columns: tuple[str, ...] = tuple(name for name, _ in found.values())
        """Names of the fields, in order of first appearance."""
        self.types: dict[str, str] = {name: kind for name, (_, kind) in found.items()} if self._is_typed else {}
        """Lower-case name of a field -> its type; empty if dumps have no types."""
        self.unreadable: UnreadableDumpError | None = None

    @property
    def omits_nulls(self) -> bool:
        """Return True if all files are JSON lines, whose records may leave out fields that are NULL."""
        return all(file.name.lower().endswith(JSON_LINES) for file in self.files)

    def _inspected(self, found: Found) -> NewFile:
        file = inspected(found, self._folder, self._reader.inspect)
        return replace(file, columns=with_types(file, file.columns)) if self._is_typed else file

    def batches(self, names: Sequence[str], schema: Any) -> Iterator[Any]:
        """Yield the rows as record batches.

        It stops at an unreadable record and stores the error in ``unreadable``.

        Args:
            names: fields in the order of ``schema``; missing fields of a file are NULL.
            schema: a text column for each of ``names``.
        """
        opened = ((file.path, self._reader.read(file, self.columns).reader) for file in self.files)
        try:
            yield from record_batches(opened, names, schema)
        except UnreadableDumpError as error:
            self.unreadable = error  # the caller raises it: raised here, it would become an error of DuckDB


def inspected(
    found: Found, folder: Path, inspect: Callable[[HashedFile, SourceFile], Content], position: str = ""
) -> NewFile:
    """Inspect one file of a dump.

    Args:
        found: file to inspect.
        folder: folder of the declaration; paths are shown relative to it.
        inspect: function that inspects a file.
        position: position of its records.

    Raises:
        UnreadableDumpError: the file cannot be read.
    """
    listed = SourceFile(
        path=stored_path(found.uri, folder),
        uri=found.uri,
        name=found.name,
        size_bytes=found.size_bytes,
        modified_ns=found.modified_ns,
        load=True,
        position=position,
    )
    with storage_of(found.uri).open(found.uri) as raw:
        hashed = HashedFile(raw)
        content, sha256 = inspect(hashed, listed), hashed.sha256()
    if content.broken:
        raise UnreadableDumpError(listed.path, 1, content.broken)
    known = {field.name: getattr(listed, field.name) for field in fields(listed)}
    return NewFile(**known, sha256=sha256, columns=content.columns, inner=content.inner)


def record_batches(opened: Iterable[tuple[str, RecordReader]], names: Sequence[str], schema: Any) -> Iterator[Any]:
    """Yield the records of files as record batches.

    Args:
        opened: path and reader of each file.
        names: fields in the order of ``schema``; missing fields of a file are NULL.
        schema: a text column for each of ``names``.

    Raises:
        UnreadableDumpError: a record cannot be read.
    """
    for path, reader in opened:
        for parsed in reader:
            if parsed.bad:
                raise UnreadableDumpError(path, parsed.bad[0].row, parsed.bad[0].reason)
            here = {name.lower(): values for name, values in parsed.fields.items()}
            none = pa.nulls(len(parsed.rows), pa.string())
            yield pa.RecordBatch.from_arrays([here.get(name.lower(), none) for name in names], schema=schema)
