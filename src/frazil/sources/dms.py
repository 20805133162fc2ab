"""Files of Amazon DMS: which there are, in which order, and which of them are new."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from dataclasses import dataclass, fields, replace
from typing import IO, TYPE_CHECKING, Final, cast

import pyarrow as pa

from frazil.bronze.csv_lines import RECORD_BYTES, UNREADABLE, Dialect, blocks, open_text, records_in
from frazil.bronze.csv_records import check_names, header_of
from frazil.bronze.layout import NewFile, SourceFile, file_columns, is_parquet
from frazil.bronze.parquet_records import first_line, parquet_columns
from frazil.errors import FrazilError
from frazil.sources.files import FileChangedError, stored_path
from frazil.storage.base import Found, Passed, Refused
from frazil.storage.files import HashedFile, find, sha256_of, storage_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from frazil.sources.files import KnownFile
    from frazil.spec import DmsFiles

_LOAD: Final = re.compile(r"(SEGMENT\d+_)?LOAD[0-9A-F]+(?![0-9A-Z])", re.IGNORECASE)
_CSV: Final = (".csv", ".csv.gz")
_PARQUET: Final = (".parquet",)
_PACKED: Final = (".bz2", ".gz", ".lz4", ".snappy", ".tar", ".tgz", ".xz", ".zip", ".zst")
_LINE_ENDS: Final = (b"\n", b"\r")
_HEADER_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 1024 * 1024
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Listing:
    """The files there are, by position, and (path, reason) of those that may not be read, or are of another kind."""

    files: tuple[SourceFile, ...]
    refused: tuple[tuple[str, str], ...] = ()
    passed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Take:
    """What a run takes.

    Attributes:
        new: files with new content, by position.
        duplicates: files with content that was taken before or stands earlier in ``new``, at ``same_as``.
        deferred: (path, reason) of files that wait for a later run.
        touched: known files that have another time and the same content.
    """

    new: tuple[NewFile, ...] = ()
    duplicates: tuple[NewFile, ...] = ()
    deferred: tuple[tuple[str, str], ...] = ()
    touched: tuple[SourceFile, ...] = ()


def list_files(source: DmsFiles, folder: Path) -> Listing:
    """List the files of a source.

    Args:
        source: the declaration; files of ``cdc_path`` are transaction files and CSV, also if below ``path``.
        folder: the declaration's folder, absolute.

    Returns:
        Every file once, full load files first, then by name as plain text, whatever their folders and times. Files of
        another kind are named with the reason; hidden and temporary ones are not.

    Raises:
        MissingFolderError: a path that is no pattern does not exist or cannot be listed.

    Cost: one ``stat`` a file; some 20,000 files a second.
    """
    files: dict[str, SourceFile] = {}
    refused: dict[str, str] = {}
    passed: dict[str, str] = {}
    own = _PARQUET if source.format == "parquet" else _CSV
    searches: list[tuple[str, tuple[str, ...], bool]] = [(path, _CSV, True) for path in source.cdc_path or ()]
    searches += [(path, own, False) for path in source.path]
    for declared, endings, shared in searches:
        for found in find(declared, folder, endings):
            path = stored_path(found.uri, folder)
            match found:
                case Found():
                    files.setdefault(path, _source_file(path, found, shared=shared))
                case Refused():
                    refused.setdefault(path, found.reason)
                case Passed():
                    passed.setdefault(path, _why_passed(path, endings, shared=shared))
    others = sorted((path, why) for path, why in passed.items() if path not in files and path not in refused)
    by_position = sorted(files.values(), key=lambda file: file.position)
    return Listing(tuple(by_position), tuple(sorted(refused.items())), tuple(others))


def _why_passed(path: str, endings: tuple[str, ...], *, shared: bool) -> str:
    """Say why a file is not read, by the end of its name."""
    name, wanted = path.lower(), " or ".join(endings)
    if name.endswith((*_CSV, *_PARQUET)):
        says = "files of cdc_path are CSV" if shared else f"the source says format: {endings[0][1:]}"
        return f"not {wanted}; {says}"
    if name.endswith(_PACKED):
        return f"packed as {name.rpartition('.')[2]}; of packed files only .csv.gz is read"
    return f"not {wanted}"


def _source_file(path: str, found: Found, *, shared: bool) -> SourceFile:
    load = not shared and _LOAD.match(found.name) is not None
    return SourceFile(
        path=path,
        uri=found.uri,
        name=found.name,
        size_bytes=found.size_bytes,
        modified_ns=found.modified_ns,
        load=load,
        position=f"{0 if load else 1}/{found.name}/{os.path.dirname(path)}",  # noqa: PTH120 - text of a stored path
        shared=shared,
    )


def take(
    listing: Listing,
    known: Mapping[str, KnownFile],
    known_contents: Mapping[str, str],
    source: DmsFiles,
    now: float,
) -> Take:
    """Tell new files from known ones, by name and by content, and read the layout of the new ones.

    Args:
        listing: what there is.
        known: the ledger by path; a known file of the same size and time is not opened.
        known_contents: path by SHA-256 of all content that was taken.
        source: the declaration.
        now: seconds since 1970, to tell the age of files.

    Returns:
        What to take. A file that breaks off (no line end, no footer, half a gzip) waits while it is younger
        than ``settle_seconds``; after that it is taken as it is, with ``broken`` set if nothing in it can be
        read. A file that changes while it is read, or cannot be opened, waits whatever its age.

    Raises:
        FileChangedError: a known path has other content.
        DuplicateFieldsError: a file names two fields alike.

    Cost: one pass over the bytes of files that are new or touched.
    """
    new: list[NewFile] = []
    duplicates: list[NewFile] = []
    deferred: list[tuple[str, str]] = []
    touched: list[SourceFile] = []
    contents = dict(known_contents)
    for file in listing.files:
        before = known.get(file.path)
        if before and (before.size_bytes, before.modified_ns) == (file.size_bytes, file.modified_ns):
            continue
        try:
            if before:
                if (content := sha256_of(file.uri)) != before.sha256:
                    raise FileChangedError(file.path, before.sha256, content)
                touched.append(file)
                continue
            taken, unfinished = _inspect(file, source)
        except OSError as error:
            deferred.append((file.path, f"cannot be read: {error.strerror or error}"))
            continue
        young = now - file.modified_ns / _NS < source.settle_seconds
        if taken is None:
            deferred.append((file.path, "changes while it is read"))
        elif unfinished and young:
            deferred.append((file.path, unfinished))
        elif taken.sha256 in contents:
            duplicates.append(replace(taken, same_as=contents[taken.sha256]))
        else:
            contents[taken.sha256] = taken.path
            new.append(taken)
    return Take(tuple(new), tuple(duplicates), tuple(deferred), tuple(touched))


def named_fields(file: SourceFile, source: DmsFiles) -> tuple[tuple[str, str], ...] | None:
    """Read which fields a file names, with their types: none for CSV without header, None where it cannot be read.

    Cost: the beginning of a CSV file, the end of a Parquet file.
    """
    try:
        if is_parquet(file.name):
            return file_columns(parquet_columns(file.path, file.uri), source.op)
        columns, broken = _header(file, source) if source.header and not file.shared else ((), None)
    except (pa.ArrowException, OSError, EOFError, zlib.error, FrazilError):
        return None
    return None if broken else columns


@dataclass(frozen=True, slots=True)
class _Content:
    """What one pass over a file finds out; ``unfinished`` says how it looks cut off."""

    columns: tuple[tuple[str, str], ...] = ()
    broken: str | None = None
    unfinished: str | None = None


def _inspect(file: SourceFile, source: DmsFiles) -> tuple[NewFile | None, str | None]:
    """Read a file once; no file when it changed meanwhile, else also why it looks unfinished."""
    storage = storage_of(file.uri)
    before = storage.stat(file.uri)
    with storage.open(file.uri) as raw:
        hashed = HashedFile(raw)
        content = _look(hashed, file, source)
        sha256 = hashed.sha256()
    is_listed = (before.size_bytes, before.modified_ns) == (file.size_bytes, file.modified_ns)
    if not is_listed or hashed.size_bytes != file.size_bytes or storage.stat(file.uri) != before:
        return None, None
    listed = {field.name: getattr(file, field.name) for field in fields(file)}
    taken = NewFile(**listed, sha256=sha256, columns=content.columns, broken=content.broken)
    return taken, content.unfinished


def _look(hashed: HashedFile, file: SourceFile, source: DmsFiles) -> _Content:
    if is_parquet(file.name):
        try:
            return _Content(file_columns(parquet_columns(file.path, file.uri), source.op))
        except (pa.ArrowException, OSError) as error:
            reason = f"unreadable: {first_line(error)}"
            return _Content(broken=reason, unfinished="no sound Parquet footer")
    zipped = file.name.lower().endswith(".gz")
    text = cast("IO[bytes]", gzip.GzipFile(fileobj=cast("IO[bytes]", hashed)) if zipped else hashed)
    last = b""
    try:
        while data := text.read(_READ_BYTES):
            last = data[-1:]
    except UNREADABLE as error:
        return _Content(broken=f"unreadable: {error}", unfinished="the gzip breaks off")
    unfinished = None if last in _LINE_ENDS else "no line end at its end"
    columns, broken = _header(file, source) if source.header and not file.shared else ((), _encoding(file))
    return _Content(columns, broken, unfinished)


def _encoding(file: SourceFile) -> str | None:
    try:
        open_text(file.uri).close()
    except UnicodeError as error:
        return f"encoding: {error}"
    return None


def _header(file: SourceFile, source: DmsFiles) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """Read the fields that the first record names, or why it cannot be read; an empty file has none."""
    dialect = Dialect(source.csv_delimiter, source.csv_escape)
    try:
        with open_text(file.uri) as text:
            for block in blocks(text, dialect, block_bytes=_HEADER_BYTES):
                found = records_in(block.data, dialect)
                if block.reason or block.is_part or (found and len(found[0]) > RECORD_BYTES):
                    return (), f"unreadable: header, {block.reason or 'too large'}"
                if found:
                    names = header_of(found[0], source.csv_delimiter, source.csv_escape)
                    check_names(file.path, names)
                    return file_columns(((name, "string") for name in names), source.op), None
    except UnicodeDecodeError as error:
        return (), f"encoding: header, invalid UTF-8 at byte {error.start + 1}"
    except UnicodeError as error:
        return (), f"encoding: {error}"
    return (), None
