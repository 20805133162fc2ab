"""What one look into a CSV or Parquet file finds out: its fields, and whether it is whole."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final, cast

import pyarrow as pa

from frazil.errors import FrazilError
from frazil.formats.csv.file import header_of
from frazil.formats.csv.lines import RECORD_BYTES, UNREADABLE, blocks, count_records, is_gzip, open_text, records_in
from frazil.formats.field_names import check_names, file_columns
from frazil.formats.parquet_file import first_line, parquet_columns
from frazil.sources.new_files import Content

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from frazil.formats.csv.lines import Dialect
    from frazil.sources.base import SourceFile
    from frazil.storage.files import HashedFile

_LINE_ENDS: Final = (b"\n", b"\r")
_HEADER_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """How a file is written.

    Attributes:
        dialect: of CSV; None for Parquet.
        header: the first record of CSV names the fields.
        op: name of the column that a field of this name, without regard to case, goes to; None for no such column.
        verify: refuses the first record of CSV, given the file's path and the fields, as none of its kind: a header, or
            the record of a file without.
        names: field, exactly as the file names it -> the name that it has here.
        layouts: fields of CSV without header whose first record has as many.
    """

    dialect: Dialect | None
    header: bool = True
    op: str | None = None
    verify: Callable[[str, Sequence[str]], None] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    layouts: tuple[tuple[str, ...], ...] = ()


def inspect(hashed: HashedFile, file: SourceFile, form: FileForm) -> Content:
    """Look into a file, from its beginning.

    Raises:
        DuplicateFieldsError: it names two fields alike.
        OSError: it cannot be read.

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

    CSV without header has those of its layout, or none.

    Cost: the beginning of a CSV file, the end of a Parquet file.
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
    """Return the fields of a CSV file without header by its layout, and why it cannot be read."""
    is_read = form.verify is not None or bool(form.layouts)
    try:
        with open_text(file.uri, cast("Dialect", form.dialect).encoding) as text:
            first = _first(text, cast("Dialect", form.dialect)) if is_read else ()
    except UnicodeError as error:
        return (), f"encoding: {error}"
    if form.verify is not None:
        form.verify(file.path, first)
    fields = next((names for names in form.layouts if len(names) == len(first)), ())
    return file_columns(((name, "string") for name in fields), form.op), None


def _first(text: IO[bytes], dialect: Dialect) -> Sequence[str]:
    """Return the fields of the first record; none of one that cannot be read, for its reader says why."""
    try:
        for block in blocks(text, dialect, block_bytes=_HEADER_BYTES):
            if block.reason or block.is_part:
                break
            if found := records_in(block.data, dialect):
                return header_of(found[0], dialect)
    except (UnicodeDecodeError, *UNREADABLE):
        pass
    return ()


def count_csv(uri: str, form: FileForm) -> int:
    """Count the records of a CSV file as :func:`frazil.formats.csv.lines.count_records` does.

    A file whose header cannot be read is one bad record, however many lines are below it.
    """
    dialect = cast("Dialect", form.dialect)
    try:
        is_broken = form.header and _names(uri, dialect)[1] is not None
    except UNREADABLE:
        return 1
    return 1 if is_broken else count_records(uri, dialect)


def _header(file: SourceFile, dialect: Dialect, form: FileForm) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """Read the fields that the first record names, or why it cannot be read; an empty file has none."""
    written, broken = _names(file.uri, dialect)
    names = [form.names.get(name, name) for name in written]
    check_names(file.path, names)
    if form.verify is not None and names:
        form.verify(file.path, names)
    return file_columns(((name, "string") for name in names), form.op) if names else (), broken


def _names(uri: str, dialect: Dialect) -> tuple[Sequence[str], str | None]:
    """Return the names in the first record, or why it cannot be read."""
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
