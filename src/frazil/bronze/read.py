"""One file in, the rows of the bronze table out: records, bad records, and the file's line in the ledger."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.bronze import record as r
from frazil.bronze.csv_lines import BLOCK_BYTES, RECORD_BYTES, Dialect, count_records
from frazil.bronze.csv_records import CsvRecords, unreadable
from frazil.bronze.layout import is_parquet
from frazil.bronze.parquet_records import ParquetRecords
from frazil.bronze.whole_file import WholeFile
from frazil.errors import SourceError
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.bronze.layout import Layout, NewFile
    from frazil.bronze.parsed import Bad, Parsed, Part

_HELD_BYTES: Final = 32 * 1024 * 1024
"""Bad records of this size wait for the good ones to be through; a file with more gives them out between."""

_LEDGER: Final = pa.struct(
    [
        ("name", pa.string()),
        ("size_bytes", pa.int64()),
        ("modified_ns", pa.int64()),
        ("sha256", pa.string()),
        ("load", pa.bool_()),
        ("rows", pa.int64()),
        ("bad", pa.int64()),
        ("headers", pa.int64()),
        ("foreign", pa.int64()),
        ("same_as", pa.string()),
        ("columns", pa.list_(pa.struct([("name", pa.string()), ("type", pa.string())]))),
    ]
)
_FORM: Final = pa.struct(
    [
        ("content", pa.string()),
        ("content_sha256", pa.string()),
        ("delimiter", pa.string()),
        ("escape", pa.string()),
        ("null_value", pa.string()),
        ("null_text", pa.string()),
        ("line_end", pa.string()),
        ("quoted", pa.list_(pa.string())),
        ("table", pa.string()),
        ("schema", pa.string()),
    ]
)
_TYPES: Final = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<string>": pa.list_(pa.string()),
    "binary": pa.binary(),
    r.LEDGER_TYPE: _LEDGER,
    r.FORM_TYPE: _FORM,
}


class ChangedWhileReadError(SourceError):
    """A file is gone, broken or other than when it was listed."""

    code = "FZ202"

    def __init__(self, path: str, what: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: {what} since it was listed",
            hint="let writers finish under a hidden name (a leading dot) and rename; then run again",
        )


def schema(layout: Layout) -> Any:
    """Arrow schema of the bronze table: the source's fields as text, then the columns Frazil owns."""
    own = [(name, _TYPES[kind]) for name, kind in r.BRONZE_COLUMNS.items()]
    return pa.schema([*((name, pa.string()) for name in layout.columns), *own])


def spark_ddl(columns: Sequence[str]) -> str:
    """Spark's schema text of the bronze table whose source fields are ``columns``."""
    types = dict.fromkeys(columns, "string") | r.BRONZE_COLUMNS
    return ", ".join(f"{quote(name)} {kind}" for name, kind in types.items())


def records(
    file: NewFile, layout: Layout, *, block_bytes: int = BLOCK_BYTES, record_bytes: int = RECORD_BYTES
) -> Iterator[Any]:
    """Read one file into rows of the bronze table.

    Args:
        file: as it was taken; a ``broken`` one comes out as a single bad record.
        layout: the bronze table's columns and the dialect.
        block_bytes: how much of a CSV file is read at a time.
        record_bytes: CSV records of more bytes are bad.

    Yields:
        Record batches of ``schema(layout)``: records in file order, then bad ones, then a ledger row. Only
        where bad records pass some 32 MB do they come out between the good ones, and parts of long ones always do.
        Row numbers count from 1, bad records and those of other tables included, blank lines and the header not.

    Raises:
        ChangedWhileReadError: size or time of the file are not those of the listing, before or after reading.

    Cost: one pass; memory of some blocks.
    """
    rows = bad_count = foreign = held_bytes = 0
    held: list[Bad] = []
    into = _Rows(file, layout)
    _check_unchanged(file)
    source = _source(file, layout, block_bytes, record_bytes)
    for parsed in _readable(file, source):
        if len(parsed.rows):
            yield into.good(parsed)
        if parsed.parts:
            yield into.parts(parsed.parts)
        rows += len(parsed.rows)
        bad_count += len(parsed.bad)
        foreign += parsed.foreign
        held += parsed.bad
        held_bytes += sum(len(one.raw or b"") + len(one.reason) for one in parsed.bad)
        if held_bytes > _HELD_BYTES:
            yield into.bad(held)
            held, held_bytes = [], 0
    _check_unchanged(file)
    if held:
        yield into.bad(held)
    # An empty file has no header either, and of a broken one nothing was read.
    headers = int(layout.has_header(file) and bool(file.columns) and not is_parquet(file.name))
    counts = {"rows": rows, "bad": bad_count, "headers": headers, "foreign": foreign}
    yield into.ledger(counts, _head_of(source), _form_of(source))


def duplicate(file: NewFile, layout: Layout) -> Any:
    """Build the ledger row of a file whose content was taken before: no records, and where they are."""
    return _Rows(file, layout).ledger({"rows": 0, "bad": 0, "headers": 0, "foreign": 0}, None, None)


def count_lines(uri: str, *, delimiter: str = ",", escape: str | None = None) -> int:
    """Count the records of a file anew: ``rows + bad + headers + foreign`` of its ledger row.

    CSV: line ends outside quotes but those of blank lines, and a last record without line end, whatever the
    reader makes of them. Parquet: the rows its footer tells. A file that cannot be read at all counts as one.
    """
    if not is_parquet(uri):
        return count_records(uri, Dialect(delimiter, escape))
    try:
        return int(pq.read_metadata(uri).num_rows)
    except (pa.ArrowException, OSError):
        return 1


_Source: TypeAlias = CsvRecords | ParquetRecords | WholeFile


def _source(file: NewFile, layout: Layout, block_bytes: int, record_bytes: int) -> _Source:
    if file.broken:
        return WholeFile(file.uri, file.broken)
    if is_parquet(file.name):
        return ParquetRecords(file, layout)
    return CsvRecords(file, layout, block_bytes=block_bytes, record_bytes=record_bytes)


def _readable(file: NewFile, source: _Source) -> Iterator[Parsed]:
    try:
        yield from source
    except unreadable() as error:
        raise ChangedWhileReadError(file.path, f"became unreadable ({error})") from error


def _head_of(source: _Source) -> bytes | None:
    return source.head if isinstance(source, CsvRecords) else None


def _form_of(source: _Source) -> dict[str, Any]:
    """Say how the bytes of a file that was read follow from its rows."""
    match source:
        case WholeFile():
            return {"content": r.BYTES}
        case ParquetRecords():
            return {"content": r.VALUES, "content_sha256": source.content_sha256}
        case CsvRecords():
            form, (table, schema) = source.form, source.constants
            quoted = zip(source.names, form.quoted or (False,) * len(source.names), strict=True)
            return {
                "content": r.CSV,
                "content_sha256": source.content_sha256,
                "delimiter": form.delimiter,
                "escape": form.escape,
                "null_value": form.null_value,
                "null_text": form.null_text,
                "line_end": None if form.line_end is None else form.line_end.decode(),
                "quoted": [name for name, always in quoted if always],
                "table": table,
                "schema": schema,
            }


def _check_unchanged(file: NewFile) -> None:
    try:
        seen = os.stat(file.uri)  # noqa: PTH116 - a Path for each of many files costs more than the call
    except OSError as error:
        raise ChangedWhileReadError(file.path, f"cannot be found ({error.strerror})") from error
    if (seen.st_size, seen.st_mtime_ns) != (file.size_bytes, file.modified_ns):
        raise ChangedWhileReadError(file.path, "size or time changed")


class _Rows:
    """Builds the rows of the bronze table for one file."""

    def __init__(self, file: NewFile, layout: Layout) -> None:
        self.file, self.layout, self.schema = file, layout, schema(layout)

    def good(self, parsed: Parsed) -> Any:
        """One batch of records."""
        count = len(parsed.rows)
        columns = {name: parsed.fields[name] for name in self.layout.columns if name in parsed.fields}
        columns |= {r.ROW: parsed.rows, r.POSITION: self._positions(parsed.fields, count)}
        known = self.layout.known_of(self.file)
        if known is not None:
            columns[r.KNOWN] = _repeat(known, _TYPES["array<string>"], count)
        columns |= {name: kept for name, kept in ((r.RAW, parsed.raw), (r.END, parsed.ends)) if kept is not None}
        return self._batch(r.RECORD, count, columns)

    def bad(self, records: list[Bad]) -> Any:
        """One batch of bad records."""
        columns = {
            r.ROW: pa.array([one.row for one in records], pa.int64()),
            r.RAW: pa.array([one.raw for one in records], pa.binary()),
            r.REASON: pa.array([one.reason for one in records], pa.string()),
            r.END: pa.array([one.end for one in records], pa.binary()),
        }
        return self._batch(r.BAD, len(records), columns)

    def parts(self, parts: list[Part]) -> Any:
        """One batch of bytes that belong to bad records."""
        columns = {
            r.ROW: pa.array([part.row for part in parts], pa.int64()),
            r.RAW: pa.array([part.data for part in parts], pa.binary()),
            r.OFFSET: pa.array([part.offset for part in parts], pa.int64()),
        }
        return self._batch(r.PART, len(parts), columns)

    def ledger(self, counts: dict[str, int], head: bytes | None, form: dict[str, Any] | None) -> Any:
        """One row of the ledger."""
        file = self.file
        named = file.columns or tuple((name, "string") for name in self._headerless())
        line = {
            "name": file.name,
            "size_bytes": file.size_bytes,
            "modified_ns": file.modified_ns,
            "sha256": file.sha256,
            "load": file.load,
            "same_as": file.same_as,
            "columns": [{"name": name, "type": kind} for name, kind in named],
        }
        columns = {
            r.LEDGER: pa.array([line | counts], _LEDGER),
            r.RAW: pa.array([head], pa.binary()),
            r.FORM: pa.array([form], _FORM),
        }
        return self._batch(r.LEDGER_ROW, 1, columns)

    def _headerless(self) -> list[str]:
        own = set(self.layout.columns)
        return [] if self.file.broken else [name for name in self.layout.fields_of(self.file) if name in own]

    def _positions(self, fields: Mapping[str, Any], count: int) -> Any:
        """The file's position, or the change sequence of each record where a change file has one."""
        file = _repeat(self.file.position, pa.string(), count)
        sequence = fields.get(self.layout.change_seq or "")
        if self.file.load or sequence is None:
            return file
        own = [f"1/{value}" if value else self.file.position for value in sequence.to_pylist()]
        return pa.array(own, pa.string())

    def _batch(self, kind: str, count: int, columns: dict[str, Any]) -> Any:
        constant = {
            r.KIND: kind,
            r.FILE: self.file.path,
            r.POSITION: self.file.position,
            r.BATCH: self.layout.batch,
            r.ARRIVED_AT: self.layout.arrived_at,
        }
        arrays = []
        for field in self.schema:
            if field.name in columns:
                arrays.append(columns[field.name])
            elif field.name in constant:
                arrays.append(_repeat(constant[field.name], field.type, count))
            else:
                arrays.append(pa.nulls(count, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _repeat(value: object, kind: Any, count: int) -> Any:
    return pa.repeat(pa.scalar(value, kind), count)
