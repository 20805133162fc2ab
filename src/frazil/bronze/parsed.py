"""What comes out of a file of records, whatever its format: fields as text, and bad records with their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa


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
    """

    fields: dict[str, Any] = field(default_factory=dict)
    rows: Any = field(default_factory=lambda: pa.array([], pa.int64()))
    raw: Any = None
    ends: Any = None
    bad: list[Bad] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    foreign: int = 0
