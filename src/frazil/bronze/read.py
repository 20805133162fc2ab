"""Read one file into rows of the bronze table: records, bad records and a ledger row.

A correction is a row that replaces a record; a person wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.errors import SourceError
from frazil.formats.csv_lines import UNREADABLE
from frazil.formats.records import WholeFile
from frazil.sources.base import FileRecords, change_position
from frazil.spec.sql.names import quote
from frazil.storage.files import storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from frazil.bronze.pii import Treatment
    from frazil.formats.records import Bad, Parsed, Part
    from frazil.sources.base import NewFile, Source

_HELD_BYTES: Final = 32 * 1024 * 1024
"""Limit for buffered bad records; beyond it they are written between the good ones."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Settings shared by all rows of a batch; executors receive it with the files to read.

    Attributes:
        source: source that reads the files.
        columns: bronze's columns for the fields of the source, in bronze's order.
        number: number of the batch.
        arrived_at: time of the run, with a time zone.
        treatment: treatment of personal data; None without personal data.
    """

    source: Source
    columns: tuple[str, ...]
    number: int
    arrived_at: datetime
    treatment: Treatment | None = None

    @property
    def schema(self) -> Any:
        """Return the Arrow schema of bronze: the source's fields as text, then the columns that Frazil owns."""
        own = [(name, _TYPES[kind]) for name, kind in r.BRONZE_COLUMNS.items()]
        return pa.schema([*((name, pa.string()) for name in self.columns), *own])


class ChangedWhileReadError(SourceError):
    """A file disappeared, broke or changed after it was listed."""

    code = "FZ202"

    def __init__(self, path: str, what: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: {what} since it was listed",
            hint="let writers finish under a hidden name (a leading dot) and rename; then run again",
        )


def spark_ddl(columns: Sequence[str]) -> str:
    """Return Spark's DDL schema of bronze for the source fields ``columns``."""
    types = dict.fromkeys(columns, "string") | r.BRONZE_COLUMNS
    return ", ".join(f"{quote(name)} {kind}" for name, kind in types.items())


def records(file: NewFile, batch: Batch, **limits: int) -> Iterator[Any]:
    """Read one file into rows of the bronze table, with personal data treated.

    Args:
        file: new file; a ``broken`` one becomes a single bad record.
        batch: settings of the batch.
        limits: as for :meth:`frazil.sources.base.Source.read`.

    Yields:
        Record batches of ``batch.schema``: records in file order, then bad records, then a ledger row. Bad records of
        more than 32 MB, and parts of long ones, come between the good ones. Row numbers start at 1 and count bad
        records and records of other tables, but not blank lines and headers.

    Raises:
        ChangedWhileReadError: size or time of the file differ from the listing, before or after the read.

    Cost: one pass; memory for a few blocks.
    """
    treat = batch.treatment
    for rows in _records(file, batch, limits):
        yield rows if treat is None else treat.treated(rows)


def _records(file: NewFile, batch: Batch, limits: Mapping[str, int]) -> Iterator[Any]:
    rows = bad_count = foreign = held_bytes = 0
    held: list[Bad] = []
    _check_unchanged(file)
    opened = _opened(file, batch, limits)
    into = _Rows(file, batch, opened)
    for parsed in _readable(file, opened):
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
    counts = {"rows": rows, "bad": bad_count, "headers": opened.headers, "foreign": foreign}
    yield into.ledger(counts, opened.reader.head, opened.reader.form())


def duplicate(file: NewFile, batch: Batch) -> Any:
    """Build the ledger row of a duplicate file, which has no records and names the first file."""
    opened = _opened(file, batch, {})
    return _Rows(file, batch, opened).ledger({"rows": 0, "bad": 0, "headers": 0, "foreign": 0}, None, None)


def _opened(file: NewFile, batch: Batch, limits: Mapping[str, int]) -> FileRecords:
    if file.broken:
        return FileRecords(reader=WholeFile(file.uri, file.broken), fields=())
    return batch.source.read(file, batch.columns, **limits)


def _readable(file: NewFile, opened: FileRecords) -> Iterator[Parsed]:
    try:
        yield from opened.reader
    except (OSError, UnicodeError, *UNREADABLE) as error:
        raise ChangedWhileReadError(file.path, f"became unreadable ({error})") from error


def _check_unchanged(file: NewFile) -> None:
    storage = storage_of(file.uri)
    if storage.names_version(file.uri):
        return  # a reader reads that version
    try:
        seen = storage.stat(file.uri)
    except OSError as error:
        raise ChangedWhileReadError(file.path, f"cannot be found ({error.strerror})") from error
    if (seen.size_bytes, seen.modified_ns) != (file.size_bytes, file.modified_ns):
        raise ChangedWhileReadError(file.path, "size or time changed")


class _Rows:
    """Builder of one file's rows in the bronze table."""

    def __init__(self, file: NewFile, batch: Batch, opened: FileRecords) -> None:
        self.file, self.batch, self.opened, self.schema = file, batch, opened, batch.schema

    def good(self, parsed: Parsed) -> Any:
        """Return a batch of records."""
        count = len(parsed.rows)
        columns = {name: parsed.fields[name] for name in self.batch.columns if name in parsed.fields}
        columns |= {r.ROW: parsed.rows, r.POSITION: self._positions(parsed.fields, count)}
        if parsed.known is not None:
            columns[r.KNOWN] = parsed.known
        elif self.opened.known is not None:
            columns[r.KNOWN] = _repeat(self.opened.known, _TYPES["array<string>"], count)
        columns |= {name: kept for name, kept in ((r.RAW, parsed.raw), (r.END, parsed.ends)) if kept is not None}
        return self._rows(r.RECORD, count, columns)

    def bad(self, records: list[Bad]) -> Any:
        """Return a batch of bad records, with the fields that can be read."""
        said = {name for one in records for name in one.said}
        fields = {
            name: pa.array([one.said.get(name) for one in records], pa.string())
            for name in self.batch.columns
            if name in said
        }
        lists = [[*one.said] if one.said else None for one in records]
        columns = fields | {
            r.POSITION: self._positions(fields, len(records)),
            r.KNOWN: pa.array(lists, _TYPES["array<string>"]),
            r.ROW: pa.array([one.row for one in records], pa.int64()),
            r.RAW: pa.array([one.raw for one in records], pa.binary()),
            r.REASON: pa.array([one.reason for one in records], pa.string()),
            r.END: pa.array([one.end for one in records], pa.binary()),
        }
        return self._rows(r.BAD, len(records), columns)

    def parts(self, parts: list[Part]) -> Any:
        """Return a batch of bytes that belong to long bad records."""
        columns = {
            r.ROW: pa.array([part.row for part in parts], pa.int64()),
            r.RAW: pa.array([part.data for part in parts], pa.binary()),
            r.OFFSET: pa.array([part.offset for part in parts], pa.int64()),
        }
        return self._rows(r.PART, len(parts), columns)

    def ledger(self, counts: dict[str, int], head: bytes | None, form: dict[str, Any] | None) -> Any:
        """Return the ledger row of the file.

        Args:
            counts: number of ``rows``, ``bad``, ``headers`` and ``foreign`` records.
            head: bytes before the first record, or None.
            form: layout from which the bytes of the file can be restored; None for a duplicate.
        """
        file = self.file
        named = file.columns or tuple((name, "string") for name in self.opened.fields)
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
        return self._rows(r.LEDGER_ROW, 1, columns)

    def _positions(self, fields: Mapping[str, Any], count: int) -> Any:
        """Return the position of each record: its own place if it has one, else the position of the file."""
        places = self.opened.order_field
        if places is None or places not in fields:
            return _repeat(self.file.position, pa.string(), count)
        has_place = pc.greater(pc.fill_null(pc.binary_length(fields[places]), 0), 0)
        own = pc.binary_join_element_wise(change_position(""), fields[places], "")
        return pc.if_else(has_place, own, self.file.position)

    def _rows(self, kind: str, count: int, columns: dict[str, Any]) -> Any:
        constant = {
            r.KIND: kind,
            r.FILE: self.file.path,
            r.POSITION: self.file.position,
            r.BATCH: self.batch.number,
            r.ARRIVED_AT: self.batch.arrived_at,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A record that replaces a delivered one.

    Attributes:
        file, row: file and row number of the replaced record.
        position: position of the replaced record; the correction has the same.
        fields: bronze column -> text, None for NULL; missing columns are not carried.
        text: correction as a person wrote it.
    """

    file: str
    row: int
    position: str
    fields: Mapping[str, str | None]
    text: str


def corrected_rows(corrections: Sequence[Correction], batch: Batch) -> Any:
    """Return an Arrow table of bronze with a row for each correction."""

    def value(one: Correction, name: str) -> object:
        own = {
            r.KIND: r.CORRECTED,
            r.FILE: one.file,
            r.ROW: one.row,
            r.POSITION: one.position,
            r.BATCH: batch.number,
            r.ARRIVED_AT: batch.arrived_at,
            r.KNOWN: None if one.fields.keys() >= {*batch.columns} else [*one.fields],
            r.RAW: one.text.encode(),
        }
        return own.get(name, one.fields.get(name))

    schema = batch.schema
    arrays = [pa.array([value(one, field.name) for one in corrections], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
