"""Parsed records of a file in any format: their names, fields as text, and bad records with their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import SchemaError
from frazil.formats.csv_lines import BLOCK_BYTES, KEPT_BYTES
from frazil.spec.contract import ICEBERG_RESERVED, OWN_PREFIX
from frazil.storage.files import storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

CSV, VALUES, BYTES = "csv", "values", "bytes"
"""How the bytes of a file follow from its records: see ``FORM_TYPE`` in :mod:`frazil.bronze.record`."""


class Bad(NamedTuple):
    """A record that cannot be parsed.

    Attributes:
        row: its ordinal in the file.
        reason: why it cannot be parsed.
        raw: its bytes, if any; only the first ones of a very long record.
        end: its line end if it differs from the file's usual one, else None. Empty if the record has parts.
        said: the fields that can still be read, by column: key and place of a record with one wrong value.
    """

    row: int
    reason: str
    raw: bytes | None = None
    end: bytes | None = None
    said: Mapping[str, str | None] = MappingProxyType({})


class Part(NamedTuple):
    """Bytes that are too many for the row they belong to, up to the next record.

    ``offset`` counts from the first part of the row.
    """

    row: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Parsed:
    """Some records of one file.

    Attributes:
        fields: text columns by name, all of one length; NULL as the file says.
        rows: ordinals of these records in their file (int64), from 1.
        raw: their bytes, NULL for a record that the file's form writes; None if the form writes all.
        ends: their line ends, NULL for the usual one; None if all have the usual one.
        bad: records that cannot be parsed.
        parts: further bytes of bad records.
        foreign: number of records of other tables.
        known: the columns that each record carries; None if all carry the columns of their file.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    rows: Any = field(default_factory=lambda: pa.array([], pa.int64()))
    raw: Any = None
    ends: Any = None
    bad: list[Bad] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    foreign: int = 0
    known: Any = None


class RecordReader(Protocol):
    """Reads one file from end to end, once."""

    @property
    def head(self) -> bytes | None:
        """Return the bytes before the first record, once the file is read; None for formats without such bytes."""

    def __iter__(self) -> Iterator[Parsed]:
        """Yield the records in the order of the file.

        Raises:
            OSError, UnicodeError, EOFError, zlib.error: the file can no longer be read.
        """

    def form(self) -> dict[str, Any]:
        """Return how the bytes of the file follow from its records, once all is read: fields of ``FORM_TYPE``."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A reader that applies a function to another reader's records. The number of records stays the same.

    Attributes:
        reader: the other reader.
        change: the function; not called for pieces of only bad records.
    """

    reader: RecordReader
    change: Callable[[Parsed], Parsed]

    @property
    def head(self) -> bytes | None:
        """Return what the reader says."""
        return self.reader.head

    def form(self) -> dict[str, Any]:
        """Return what the reader says."""
        return self.reader.form()

    def __iter__(self) -> Iterator[Parsed]:
        """Yield the records in the order of the file."""
        for parsed in self.reader:
            yield self.change(parsed) if len(parsed.rows) else parsed


TABLE_FIELD, SCHEMA_FIELD = "_cdc_table", "_cdc_schema"
"""Names of the second and third field of a file with many tables that does not name them, while it is read."""

UNNAMED: Final = (TABLE_FIELD, SCHEMA_FIELD)


class OwnFilter(Protocol):
    """Filter of the records in a file."""

    @property
    def names_fields(self) -> bool:
        """Return whether all fields of a record have names."""

    def is_own(self, table: str | None, schema: str | None) -> bool:
        """Return whether a record that names its table so is kept, if it cannot be read otherwise."""

    def among(self, fields: dict[str, Any], rows: Any, *, is_last: bool) -> NDArray[np.bool_]:
        """Return which records are kept, for all of them at once; may add columns to ``fields``.

        Args:
            fields: text columns of n records, in file order.
            rows: their n ordinals in the file.
            is_last: no records of the file are behind them.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecords:
    """Filter of one table's records in a file with many tables.

    Attributes:
        table: the table whose records are kept.
        schema: its schema; None takes any.
        exact: upper and lower case of the table's name count.
        fields: columns with table and schema of a record. Those of :data:`UNNAMED` are the second and third field of
            every record, and are not kept.
    """

    table: str
    schema: str | None
    exact: bool
    fields: tuple[str, str] = UNNAMED

    @property
    def names_fields(self) -> bool:
        """Return whether table and schema are fields like others."""
        return self.fields != UNNAMED

    def is_own(self, table: str | None, schema: str | None) -> bool:
        """Return whether a record with these names is kept."""
        same = table == self.table if self.exact else (table or "").lower() == self.table.lower()
        return same and self.schema in {None, schema}

    def among(self, fields: dict[str, Any], rows: Any, *, is_last: bool) -> NDArray[np.bool_]:
        """Return which records are kept, for all of them at once."""
        del rows, is_last
        tables = fields[self.fields[0]]
        own = equals(tables, self.table) if self.exact else equals(pc.utf8_lower(tables), self.table.lower())
        return own if self.schema is None else own & equals(fields[self.fields[1]], self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotErased:
    """Filter that drops the erased records of a landing file, which have ``mark`` in ``field``."""

    field: str
    mark: str
    names_fields: bool = True

    def is_own(self, table: str | None, schema: str | None) -> bool:
        """Return True: a record that cannot be read is shown."""
        del table, schema
        return True

    def among(self, fields: dict[str, Any], rows: Any, *, is_last: bool) -> NDArray[np.bool_]:
        """Return which records are kept, for all of them at once."""
        del rows, is_last
        return ~equals(fields[self.field], self.mark)


def equals(column: Any, value: str | None) -> NDArray[np.bool_]:
    """Return a mask of the rows where a column equals a value; None matches only NULL."""
    same = column.is_null() if value is None else pc.equal(column, value).fill_null(fill_value=False)
    found: NDArray[np.bool_] = same.to_numpy(zero_copy_only=False)
    return found


class DuplicateFieldsError(SchemaError):
    """A file names two fields alike."""

    code = "FZ501"

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self.path, self.names = path, tuple(names)
        super().__init__(
            f"{path}: {', '.join(map(repr, self.names))} name more than one field, without regard to case",
            hint=f"give one another name in the source: names: {{{self.names[-1]}: {self.names[-1].lower()}_2}}",
        )


def check_names(path: str, names: Sequence[str]) -> None:
    """Refuse two fields of one name.

    Raises:
        DuplicateFieldsError: two names are equal without regard to case.
    """
    lower = [name.lower() for name in names]
    if twice := [name for name in names if lower.count(name.lower()) > 1]:
        raise DuplicateFieldsError(path, twice)


def safe_name(name: str, taken: frozenset[str] = frozenset()) -> str:
    """Return the name of the column of a source field.

    The name is unchanged except in three cases. A name that Iceberg cannot read back, or that begins with ``_cdc_``,
    gets the prefix ``source``. Control characters become ``_``. A name that is taken, without regard to case, gets the
    suffix ``__2``, ``__3`` ….

    Args:
        name: the field's name in the file; empty becomes ``unnamed``.
        taken: lower-case column names given so far.
    """
    clean = "".join(character if character.isprintable() else "_" for character in name).strip()[:255] or "unnamed"
    if clean.lower() in ICEBERG_RESERVED or clean.lower().startswith(OWN_PREFIX):
        clean = f"source{clean}"
    if clean.lower() not in taken:
        return clean
    number = 2
    while f"{clean}__{number}".lower() in taken:
        number += 1
    return f"{clean}__{number}"


def file_columns(names_and_types: Iterable[tuple[str, str]], op: str | None = None) -> tuple[tuple[str, str], ...]:
    """Return the column names of the fields of a file; an op column gets its declared name.

    Args:
        names_and_types: fields in file order; names distinct without regard to case.
        op: declared name of the op column, compared without regard to case; None if no column has this role.
    """
    taken: set[str] = set()
    columns = []
    for name, kind in names_and_types:
        column = op if op is not None and name.lower() == op.lower() else safe_name(name, frozenset(taken))
        taken.add(column.lower())
        columns.append((column, kind))
    return tuple(columns)


class WholeFile:
    """A file as one bad record: its first bytes in its row, the others in parts."""

    head: Final = None

    def __init__(self, uri: str, reason: str) -> None:
        self._uri, self._reason = uri, reason

    def form(self) -> dict[str, Any]:
        """Return that the file is kept as it is stored."""
        return {"content": BYTES}

    def __iter__(self) -> Iterator[Parsed]:
        """Yield the bad record, then its parts.

        Raises:
            OSError: the file cannot be read.
        """
        with storage_of(self._uri).open(self._uri) as stored:
            yield Parsed(bad=[Bad(1, self._reason, stored.read(KEPT_BYTES))])
        yield from parts_of(self._uri, 1, KEPT_BYTES)


def parts_of(uri: str, row: int, start: int = 0) -> Iterator[Parsed]:
    """Yield the bytes of a file from an offset on as parts of a row.

    Args:
        uri: the file.
        row: ordinal of the row that the parts belong to.
        start: offset of the first byte.
    """
    offset = 0
    with storage_of(uri).open(uri) as stored:
        stored.seek(start)
        while data := stored.read(BLOCK_BYTES):
            yield Parsed(parts=[Part(row, offset, data)])
            offset += len(data)
