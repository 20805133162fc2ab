"""Take blocks of CSV records apart: every field as the text it was, what is bad as it came.

PyArrow reads a block; what it would do silently wrong is kept from it: an open quote, invalid UTF-8, records
too large.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from frazil.bronze.csv_lines import (
    BLOCK_BYTES,
    RECORD_BYTES,
    UNREADABLE,
    Dialect,
    blocks,
    dialect_of,
    open_text,
    records_in,
    too_large,
)
from frazil.bronze.layout import SHARED_SCHEMA, SHARED_TABLE, Layout
from frazil.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.bronze.layout import NewFile

NO_OP_COLUMN: Final = "no_op_column"
"""Reason of the records of a change file whose header does not have the op column."""


class DuplicateFieldsError(SchemaError):
    """A file names two fields alike."""

    code = "FZ501"

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self.path, self.names = path, tuple(names)
        super().__init__(
            f"{path}: {', '.join(map(repr, self.names))} name more than one field, without regard to case",
            hint="rename or remove the field at the source and write the file again, under another name",
        )


class Bad(NamedTuple):
    """A record that cannot be taken apart: its ordinal in the file, reason, and bytes if there are any."""

    row: int
    reason: str
    raw: bytes | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """Some records of one file.

    Attributes:
        fields: text columns by name, all of one length; NULL where the file says so.
        rows: ordinals of these records in their file (int64), from 1.
        bad: records that could not be taken apart.
        foreign: how many records belong to other tables.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    rows: Any = field(default_factory=lambda: pa.array([], pa.int64()))
    bad: list[Bad] = field(default_factory=list)
    foreign: int = 0


def header_of(record: bytes, delimiter: str, escape: str | None) -> list[str]:
    """Take the header record apart; a field left empty has the empty name.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    record.decode()
    most = record.count(delimiter.encode()) + 1
    table = csv.read_csv(
        pa.BufferReader(record + b"\n"),
        read_options=csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(record) + 2),
        parse_options=_parse_options(delimiter, escape),
        convert_options=csv.ConvertOptions(column_types={f"f{n}": pa.string() for n in range(most)}),
    )
    return [column[0].as_py() for column in table.columns]


def check_names(path: str, names: Sequence[str]) -> None:
    """Refuse two fields of one name.

    Raises:
        DuplicateFieldsError: two names are equal without regard to case.
    """
    lower = [name.lower() for name in names]
    if twice := [name for name in names if lower.count(name.lower()) > 1]:
        raise DuplicateFieldsError(path, twice)


def csv_records(
    file: NewFile, layout: Layout, *, block_bytes: int = BLOCK_BYTES, record_bytes: int = RECORD_BYTES
) -> Iterator[Parsed]:
    """Read a CSV file, some records at a time.

    Args:
        file: a sound file: ``broken`` is None.
        layout: how its fields map to columns.
        block_bytes: how much is read at a time.
        record_bytes: records of more bytes are bad, as ``field_too_large``.

    Yields:
        All records in the order of the file, its header left out.

    Raises:
        OSError, EOFError, zlib.error: the file cannot be read any more.
    """
    dialect = dialect_of(layout)
    reader = _Reader(layout, layout.fields_of(file), dialect, shared=file.shared, record_bytes=record_bytes)
    no_op = layout.has_header(file) and not file.load and layout.op not in reader.names
    row, header_due = 1, layout.has_header(file)
    with open_text(file.uri) as text:
        for block in blocks(text, dialect, block_bytes=block_bytes, record_bytes=record_bytes):
            data = block.data
            if header_due:
                data, header_due = _after_first(data, dialect), False
            if block.reason:
                parsed = Parsed(bad=[Bad(row, block.reason, data)])
            elif no_op:
                found = enumerate(records_in(data, dialect), row)
                parsed = Parsed(bad=[Bad(number, NO_OP_COLUMN, raw) for number, raw in found])
            else:
                parsed = reader.parse(data, row)
            row += len(parsed.rows) + len(parsed.bad) + parsed.foreign
            yield parsed


def unreadable() -> tuple[type[Exception], ...]:
    """What ``csv_records`` raises for a file that changed or broke after it was listed."""
    return (OSError, UnicodeError, *UNREADABLE)


def _after_first(data: bytes, dialect: Dialect) -> bytes:
    ends = dialect.scan(data).ends
    filled = np.flatnonzero(np.diff(ends, prepend=-1) > 1)
    return data[int(ends[filled[0]]) + 1 :] if filled.size else b""


def _parse_options(delimiter: str, escape: str | None, invalid_row_handler: Any = None) -> Any:
    return csv.ParseOptions(
        delimiter=delimiter,
        escape_char=escape or False,
        double_quote=escape is None,
        newlines_in_values=True,
        ignore_empty_lines=True,
        invalid_row_handler=invalid_row_handler,
    )


class _Reader:
    """Parses blocks of one file."""

    def __init__(
        self, layout: Layout, names: tuple[str, ...], dialect: Dialect, *, shared: bool, record_bytes: int
    ) -> None:
        self.layout, self.names, self.dialect, self.shared = layout, names, dialect, shared
        self.record_bytes = record_bytes
        self.table = layout.shared_table if layout.shared_exact else layout.shared_table.lower()
        delimiter = re.escape(layout.delimiter)
        one = f'(?:"([^"]*)"|([^"{delimiter}]*))'
        self.first_three = re.compile(f"{one}{delimiter}{one}{delimiter}{one}(?={delimiter}|\\Z)")

    def parse(self, data: bytes, row: int) -> Parsed:
        """Parse whole records, the first of which is number ``row`` of the file."""
        try:
            # One look over the whole block; no field of it need be looked at again.
            pa.scalar(data, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            return self._parse_sound(data, row)
        if len(data) > self.record_bytes:
            return self._parse_sound(data, row)
        return self._parse(data, row)

    def _parse_sound(self, data: bytes, row: int) -> Parsed:
        """Parse what is left without the records that are too large or not UTF-8."""
        sound, rows, bad = [], [], []
        for number, raw in enumerate(records_in(data, self.dialect), row):
            if len(raw) > self.record_bytes:
                kept, reason = too_large(raw, len(raw))
                bad.append(Bad(number, str(reason), kept))
                continue
            try:
                raw.decode()
            except UnicodeDecodeError as error:
                bad.append(Bad(number, f"encoding: invalid UTF-8 at byte {error.start + 1}", raw))
                continue
            sound.append(raw)
            rows.append(number)
        parsed = self._parse(b"".join(raw + b"\n" for raw in sound), 1)
        place = np.array([0, *rows])
        return Parsed(
            parsed.fields,
            pa.array(place[parsed.rows.to_numpy()]),
            sorted([*bad, *(one._replace(row=int(place[one.row])) for one in parsed.bad)]),
            parsed.foreign,
        )

    def _parse(self, data: bytes, row: int) -> Parsed:
        if not data.strip(b"\r\n"):
            return Parsed()
        if not data.endswith((b"\n", b"\r")):
            data += b"\n"  # without it an empty last field after a quoted one would not be NULL
        invalid: list[Any] = []

        def keep(record: Any) -> str:
            invalid.append((record.number, record.expected_columns, record.actual_columns, record.text))
            return "skip"

        names = self.names
        table = csv.read_csv(
            pa.BufferReader(data),
            # One block, so that the numbers of invalid records count from its beginning.
            read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            parse_options=_parse_options(self.layout.delimiter, self.layout.escape, keep),
            convert_options=csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=["", self.layout.null_value],
            ),
        ).combine_chunks()
        skipped = np.array([number for number, *_ in invalid], dtype=np.int64) - 1
        rows = np.delete(np.arange(row, row + table.num_rows + len(invalid), dtype=np.int64), skipped)
        fields = {name: _one_chunk(table.column(name)) for name in names}
        foreign = 0
        if self.shared:
            ours = self._ours(fields[SHARED_TABLE], fields[SHARED_SCHEMA])
            foreign = table.num_rows - int(np.count_nonzero(ours))
            if foreign:
                rows, mask = rows[ours], pa.array(ours)
                fields = {name: column.filter(mask) for name, column in fields.items()}
        bad = []
        for number, expected, actual, text in invalid:
            if self.shared and self._is_foreign(text):
                foreign += 1
                continue
            code = "too_many_fields" if actual > expected else "too_few_fields"
            bad.append(Bad(row + number - 1, f"{code}: {actual}, expected {expected}", text.encode()))
        return Parsed(fields, pa.array(rows), bad, foreign)

    def _ours(self, tables: Any, schemas: Any) -> Any:
        """Which records belong to the table; a NULL name is no name."""
        ours = pc.equal(self._case(tables), self.table)
        if self.layout.shared_schema is not None:
            ours = pc.and_(ours, pc.equal(schemas, self.layout.shared_schema))
        return pc.fill_null(ours, fill_value=False).to_numpy(zero_copy_only=False)

    def _case(self, names: Any) -> Any:
        return names if self.layout.shared_exact else pc.utf8_lower(names)

    def _is_foreign(self, text: str) -> bool:
        """Whether a record of another width says that it belongs to another table."""
        first = self.first_three.match(text)
        if not first:
            return False  # nobody's, so it is shown as ours
        table, schema = first[3] or first[4], first[5] or first[6]
        if (table if self.layout.shared_exact else table.lower()) != self.table:
            return True
        return self.layout.shared_schema not in {None, schema}


def _one_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
