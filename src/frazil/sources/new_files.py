"""Find the new files of a source by name and content, and inspect each file once.

An inspection reads the names of the fields and detects files that are incomplete. ``misordered`` finds file names
whose text order differs from the order of their numbers.
"""

from __future__ import annotations

import gzip
import re
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Final, TypeAlias, cast

import pyarrow as pa

from frazil.errors import FrazilError, HistoryChangedError, SourceError
from frazil.formats.csv_lines import RECORD_BYTES, UNREADABLE, blocks, count_records, is_gzip, open_text, records_in
from frazil.formats.csv_reader import header_of
from frazil.formats.parquet_file import first_line, parquet_columns
from frazil.formats.records import check_names, file_columns
from frazil.sources.base import SNAPSHOT, NewFile, SourceDelta
from frazil.storage.files import HashedFile, sha256_of, storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from frazil.formats.csv_lines import CsvDialect
    from frazil.sources.base import Listing, SourceFile
    from frazil.sources.ledger import Ledger
    from frazil.sources.trail import Span

_NS: Final = 1_000_000_000


class FileChangedError(HistoryChangedError):
    """The content of a known file has changed."""

    code = "FZ701"

    def __init__(self, path: str, before: str, now: str, *, load: bool = False) -> None:
        self.path, self.before, self.now = path, before, now
        hint = "put the old content back"
        if not load:
            hint += " and deliver the new records under a new name"
        hint += "; or, if the first upload was cut off"
        if load:
            hint += " or it is a repeated full load whose earlier change files were removed"
        hint += ", read all files of the table again: frazil drop --select TABLE, then frazil run"
        text = f"{path}: content changed after it was taken (sha256 {before[:12]} then, {now[:12]} now)"
        super().__init__(text, hint=hint)


@dataclass(frozen=True, slots=True)
class Content:
    """Result of one pass over a file.

    Attributes:
        columns, inner, written, broken, trail, tables: as in :class:`NewFile`.
        unfinished: why the file seems to be incomplete; None for a complete file.
    """

    columns: tuple[tuple[str, str], ...] = ()
    broken: str | None = None
    unfinished: str | None = None
    inner: tuple[tuple[str, str], ...] = ()
    written: tuple[str, ...] = ()
    trail: tuple[Span, ...] = ()
    tables: tuple[str, ...] = ()


Inspect: TypeAlias = "Callable[[HashedFile, SourceFile], Content]"
"""Inspects a file from its beginning; may stop early."""


@dataclass(frozen=True, slots=True)
class Copies:
    """How to decide whether a file with known bytes is a duplicate.

    Attributes:
        by_place: True if only the places of files order records; the same bytes in another file are then new changes.
        named_delivery: pattern of file names; see :attr:`frazil.spec.model.source.SourceSpec.named_delivery`.
    """

    by_place: bool = False
    named_delivery: str | None = None


NO_MARKS: Final = Copies()
"""Compare the bytes only: a file with known bytes is a duplicate."""


def find_new(
    listing: Listing,
    ledger: Ledger,
    inspect: Inspect,
    *,
    settle_seconds: float,
    copies: Copies = NO_MARKS,
    emptied_from: Callable[[str], str | None] = lambda _: None,
) -> SourceDelta:
    """Find the new files of a listing.

    An incomplete file waits while it is younger than ``settle_seconds``; then it is taken as it is. A file that changes
    during the read, or cannot be opened, waits at any age.

    Args:
        listing: listed files.
        ledger: files that bronze has. A known file with the same size and time is not opened. If only the time differs
            and the content does not, the ledger gets the new time.
        inspect: function that inspects a file.
        settle_seconds: age from which an incomplete file is taken.
        copies: how to decide whether a file is a duplicate.
        emptied_from: function that returns the hash of a file from before an erase emptied records; None for others.

    Raises:
        FileChangedError: the content of a known path has changed.

    Cost: one pass over the bytes of files that are new or touched.
    """
    now = time.time()
    new: list[NewFile] = []
    duplicates: list[NewFile] = []
    deferred: list[tuple[str, str]] = []
    contents = _Contents(copies.named_delivery, ledger)
    for file in listing.files:
        try:
            if _is_known(file, ledger, emptied_from):
                continue
            taken, unfinished = _inspected(file, inspect)
        except OSError as error:
            deferred.append((file.path, f"cannot be read: {error.strerror or error}"))
            continue
        if taken is None:
            deferred.append((file.path, "changes while it is read"))
        elif unfinished and now - file.modified_ns // _NS < settle_seconds:
            deferred.append((file.path, unfinished))
        else:
            found = replace(taken, same_as=contents.same(taken.sha256, taken.path))
            contents.add(found.sha256, found.path, found.same_as)
            (new if found.same_as is None else duplicates).append(found)
    known = listing.unchanged + sum(file.path in ledger.files for file in listing.files) + len(duplicates)
    if copies.by_place:
        # A full load has no place of its own: a copy of one is no new load.
        again = (replace(file, same_as=None) for file in duplicates if not file.load)
        new = sorted((*new, *again), key=lambda file: file.position)
        duplicates = [file for file in duplicates if file.load]
    return SourceDelta(
        files=tuple(new),
        duplicates=tuple(duplicates),
        deferred=(*deferred, *listing.refused),
        known=known,
        again=ledger.repeated,
        passed=listing.passed,
        loads_again=_loads_again(new, ledger),
        reorders=any(ledger.moves(file.same_as, file.position) for file in duplicates),
        reordered_in=ledger.reordered_in,
    )


def _loads_again(new: list[NewFile], ledger: Ledger) -> tuple[str, ...]:
    loads = {path.rpartition("/")[2] for path, position in ledger.places.items() if position.startswith(SNAPSHOT)}
    return tuple(file.path for file in new if file.load and file.name in loads)


class _Contents:
    """Known contents by delivery. Each content is taken once per delivery, in any order of arrival.

    A file name without a delivery matches every delivery.
    """

    def __init__(self, named_delivery: str | None, ledger: Ledger) -> None:
        self._told = None if named_delivery is None else re.compile(named_delivery)
        self._first: dict[str, dict[str | None, str]] = {}
        for path, file in ledger.files.items():
            self.add(file.sha256, path, file.same_as)

    def add(self, sha256: str, path: str, same_as: str | None) -> None:
        """Remember a file.

        Args:
            sha256: hash of its content.
            path: path of the file.
            same_as: path of the file that it duplicates; None for new content.
        """
        self._first.setdefault(sha256, {}).setdefault(self._delivery(path), same_as or path)

    def same(self, sha256: str, path: str) -> str | None:
        """Return the path of the file with the same content and delivery; None if the content is new."""
        known, delivery = self._first.get(sha256), self._delivery(path)
        if known is None:
            return None
        if delivery is None:
            return known.get(None, next(iter(known.values())))
        return known.get(delivery, known[None] if {*known} == {None} else None)

    def _delivery(self, path: str) -> str | None:
        found = self._told and self._told.search(path)
        return found[1] if found else None


def _is_known(file: SourceFile, ledger: Ledger, emptied_from: Callable[[str], str | None]) -> bool:
    before = ledger.files.get(file.path)
    if before is None:
        return False
    if (before.size_bytes, before.modified_ns) != (file.size_bytes, file.modified_ns):
        is_emptied = emptied_from(file.uri) == before.sha256
        if not is_emptied and (content := sha256_of(file.uri)) != before.sha256:
            raise FileChangedError(file.path, before.sha256, content, load=file.load)
        ledger.files[file.path] = replace(before, modified_ns=file.modified_ns)
    return True


def _inspected(file: SourceFile, inspect: Inspect) -> tuple[NewFile | None, str | None]:
    """Read a file once; return it with the reason if it is incomplete, or (None, None) if it changed meanwhile."""
    storage = storage_of(file.uri)
    before = None if storage.names_version(file.uri) else storage.stat(file.uri)
    with storage.open(file.uri) as raw:
        hashed = HashedFile(raw)
        content = inspect(hashed, file)
        sha256 = hashed.sha256()
    if before is not None:
        is_listed = (before.size_bytes, before.modified_ns) == (file.size_bytes, file.modified_ns)
        if not is_listed or hashed.size_bytes != file.size_bytes or storage.stat(file.uri) != before:
            return None, None
    listed = {field.name: getattr(file, field.name) for field in fields(file)}
    looked = {name: getattr(content, name) for name in ("columns", "inner", "written", "broken", "trail", "tables")}
    found = NewFile(**listed, sha256=sha256, **looked)
    return found, content.unfinished


_LINE_ENDS: Final = (b"\n", b"\r")
_HEADER_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 1024 * 1024
_FIRST_RECORDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """The format of a file.

    Attributes:
        dialect: dialect of CSV; None for Parquet.
        header: True if the first CSV record names the fields.
        op: name of the operation column; it receives the field of this name in any case. None without such a column.
        verify: function that gets the path and the first CSV record, and raises if the record contradicts ``header``.
        names: exact name of a field in the file -> its name in bronze.
        layouts: lists of field names for CSV without a header; the list with the length of the first record applies.
        verify_records: for CSV without a header: function that gets the path and the first records, and raises if they
            are of another layout.
    """

    dialect: CsvDialect | None
    header: bool = True
    op: str | None = None
    verify: Callable[[str, Sequence[str]], None] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    layouts: tuple[tuple[str, ...], ...] = ()
    verify_records: Callable[[str, Sequence[Sequence[str]]], None] | None = None


def inspect(hashed: HashedFile, file: SourceFile, form: FileForm) -> Content:
    """Inspect a file from its beginning.

    Args:
        hashed: the file, opened at its beginning.
        file: the file as listed.
        form: format of the file.

    Raises:
        DuplicateFieldsError: two fields have the same name.
        OSError: the file cannot be read.

    Cost: one pass over a CSV file, the end of a Parquet file.
    """
    if form.dialect is None:
        try:
            return Content(file_columns(parquet_columns(file.path, file.uri, form.names), form.op))
        except (pa.ArrowException, OSError) as error:
            reason = f"unreadable: {first_line(error)}"
            return Content(broken=reason, unfinished="no sound Parquet footer")
    raw = cast("IO[bytes]", hashed)
    text = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if is_gzip(file.name) else raw
    last = b""
    try:
        while data := text.read(_READ_BYTES):
            last = data[-1:]
    except UNREADABLE as error:
        return Content(broken=f"unreadable: {error}", unfinished="the gzip breaks off")
    unfinished = None if last in _LINE_ENDS else "no line end at its end"
    columns, broken = _header(file, form.dialect, form) if form.header else _headerless(file, form)
    return Content(columns, broken=broken, unfinished=unfinished)


def named_fields(file: SourceFile, form: FileForm) -> tuple[tuple[str, str], ...] | None:
    """Return the fields that a file names, with their types; None if it cannot be read.

    CSV without a header has the fields of its layout, or none.

    Cost: reads the beginning of a CSV file, the end of a Parquet file.
    """
    if form.dialect is not None and not form.header:
        with suppress(OSError, EOFError, zlib.error):
            return _headerless(file, form)[0]
        return ()
    try:
        if form.dialect is None:
            return file_columns(parquet_columns(file.path, file.uri, form.names), form.op)
        columns, broken = _header(file, form.dialect, form)
    except (pa.ArrowException, OSError, EOFError, zlib.error, FrazilError):
        return None
    return None if broken else columns


def _headerless(file: SourceFile, form: FileForm) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """Return the fields of a CSV file without a header by its layout, and the reason if it cannot be read."""
    is_read = form.verify is not None or form.verify_records is not None or bool(form.layouts)
    try:
        with open_text(file.uri, cast("CsvDialect", form.dialect).encoding) as text:
            records = _first_records(text, cast("CsvDialect", form.dialect)) if is_read else []
    except UnicodeError as error:
        return (), f"encoding: {error}"
    first = records[0] if records else ()
    if form.verify is not None:
        form.verify(file.path, first)
    if form.verify_records is not None:
        form.verify_records(file.path, records)
    fields = next((names for names in form.layouts if len(names) == len(first)), ())
    return file_columns(((name, "string") for name in fields), form.op), None


def _first_records(text: IO[bytes], dialect: CsvDialect) -> list[Sequence[str]]:
    """Return the fields of the first records; none if they cannot be read, because the reader reports the reason."""
    records: list[Sequence[str]] = []
    try:
        for block in blocks(text, dialect, block_bytes=_HEADER_BYTES):
            if block.reason or block.is_part or len(records) >= _FIRST_RECORDS:
                break
            found = records_in(block.data, dialect)[:_FIRST_RECORDS]
            records += [header_of(record, dialect) for record in found]
    except (UnicodeDecodeError, *UNREADABLE):
        pass
    return records


def count_csv(uri: str, form: FileForm) -> int:
    """Count the records of a CSV file with :func:`frazil.formats.csv_lines.count_records`.

    A file with an unreadable header counts as one bad record, regardless of the lines below it.
    """
    dialect = cast("CsvDialect", form.dialect)
    try:
        is_broken = form.header and _names(uri, dialect)[1] is not None
    except UNREADABLE:
        return 1
    return 1 if is_broken else count_records(uri, dialect)


def _header(file: SourceFile, dialect: CsvDialect, form: FileForm) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """Return the fields that the first record names, and the reason if it cannot be read; empty for an empty file."""
    written, broken = _names(file.uri, dialect)
    names = [form.names.get(name, name) for name in written]
    check_names(file.path, names)
    if form.verify is not None and names:
        form.verify(file.path, names)
    return file_columns(((name, "string") for name in names), form.op) if names else (), broken


def _names(uri: str, dialect: CsvDialect) -> tuple[Sequence[str], str | None]:
    """Return the names in the first record, and the reason if it cannot be read."""
    try:
        with open_text(uri, dialect.encoding) as text:
            for block in blocks(text, dialect, block_bytes=_HEADER_BYTES):
                found = records_in(block.data, dialect)
                if block.reason or block.is_part or (found and len(found[0]) > RECORD_BYTES):
                    return (), f"unreadable: header, {block.reason or 'too large'}"
                if found:
                    return header_of(found[0], dialect), None
    except UnicodeDecodeError as error:
        return (), f"encoding: header, invalid UTF-8 at byte {error.start + 1}"
    except UnicodeError as error:
        return (), f"encoding: {error}"
    return (), None


_NUMBER: Final = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]*)([0-9]+)(?![A-Za-z0-9])")
"""A number at the end of a word; digits inside words are part of hashes."""


class NameOrderError(SourceError):
    """The text order of file names differs from the order of the numbers in them."""

    code = "FZ213"
    retryable = False

    def __init__(self, table: str, first: str, second: str, *, hint: str) -> None:
        super().__init__(
            f"table {table!r}: file names are ordered as text, so {first} comes before {second}", hint=hint
        )


def misordered(names: Iterable[str]) -> tuple[str, str] | None:
    """Find two names whose text order differs from the order of their numbers.

    Returns:
        The two names in text order, such as ``part-10`` and ``part-9``; None if all agree. Names that differ in
        anything but numbers are not compared.
    """
    alike: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        alike.setdefault(_NUMBER.sub(r"\1#", name), []).append(name)
    pairs = (pair for some in alike.values() for pair in pairwise(some))
    return next((pair for pair in pairs if _numbers(pair[0]) > _numbers(pair[1])), None)


def _numbers(name: str) -> list[int]:
    return [int(digits) for _, digits in _NUMBER.findall(name)]
