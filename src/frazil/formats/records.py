"""Parsed records of a file in any format: fields as text, and bad records with their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
