"""What comes out of a file of records, whatever its format: fields as text, and bad records with their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CSV, VALUES, BYTES = "csv", "values", "bytes"
"""How the bytes of a file follow from its records: see ``FORM_TYPE`` in :mod:`frazil.bronze.record`."""


class Bad(NamedTuple):
    """A record that cannot be taken apart.

    Attributes:
        row: its ordinal in the file.
        reason: why.
        raw: its bytes if there are any; only the first of a very long record.
        end: what stands behind it in place of the file's usual line end; None for that. Empty where it has parts.
    """

    row: int
    reason: str
    raw: bytes | None = None
    end: bytes | None = None


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
        fields: text columns by name, all of one length; NULL where the file says so.
        rows: ordinals of these records in their file (int64), from 1.
        raw: their bytes, NULL for a record that the file's form writes; None if all of them are so.
        ends: what stands behind them, NULL for the usual line end; None if it always is that.
        bad: records that could not be taken apart.
        parts: what belongs to bad records besides their rows.
        foreign: how many records belong to other tables.
        known: list of the columns that each record carries; None where all carry what their file does.
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
        """Return what stands before the first record, once all is read; None where the format has no such bytes."""

    def __iter__(self) -> Iterator[Parsed]:
        """Yield the records in the order of the file.

        Raises:
            OSError, UnicodeError, EOFError, zlib.error: the file can no longer be read.
        """

    def form(self) -> dict[str, Any]:
        """Return how the bytes of the file follow from its records, once all is read: fields of ``FORM_TYPE``."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Reads what another reader reads, with something done to its records; how many there are stays the same.

    Attributes:
        reader: the other one.
        change: does it; is not given what holds bad records alone.
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
