"""Cut CSV bytes into whole records, and count them, without taking them apart.

A line end inside quotes belongs to its field, so it has to be known where quotes stand. Numpy finds that
out for millions of bytes at once where every quote is well placed; a regular expression where some are not.
"""

from __future__ import annotations

import gzip
import re
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from frazil.bronze.layout import Layout

    Positions = NDArray[np.int64]

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""How much is read at a time: the records of about one batch, and the memory a file needs."""

RECORD_BYTES: Final = 16 * 1024 * 1024
"""A record of more bytes than this is bad: its first ``KEPT_BYTES`` are kept."""

KEPT_BYTES: Final = 1024 * 1024

UNREADABLE = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a compressed file that breaks off or is damaged raises."""

_QUOTE, _LF, _CR = b'"\n\r'
_BOM, _UTF_16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


class Scan(NamedTuple):
    """Where the records in a piece of text end, and what goes on after it.

    Attributes:
        ends: positions of the line-end bytes outside quotes, rising.
        state: bytes that bring a scanner from a record's start to where this text ends; none at a line end.
        open: the text ends inside quotes or after an escape character.
    """

    ends: Positions
    state: bytes
    open: bool


class Block(NamedTuple):
    """Some whole records; with a ``reason``, one record that cannot be taken apart."""

    data: bytes
    reason: str | None = None


@dataclass(frozen=True)
class Dialect:
    """What delimits fields, and how a quote inside quotes is written: doubled, or after ``escape``."""

    delimiter: str = ","
    escape: str | None = None

    @cached_property
    def _inside(self) -> re.Pattern[bytes]:
        """What follows an opening quote, and the closing one if there is one."""
        return re.compile(b'[^"]*("?)' if self.escape else b'[^"]*(?:""[^"]*)*("?)')

    @cached_property
    def _escaped(self) -> re.Pattern[bytes]:
        return re.compile(re.escape((self.escape or "").encode()) + b"(.|$)", re.DOTALL)

    def scan(self, data: bytes) -> Scan:
        """Find the ends of the records in ``data``, which begins at the start of a record.

        Cost: some passes of numpy over the bytes; a regular expression where quotes stand in unquoted fields.
        """
        dangling = False
        if self.escape and self.escape.encode() in data:
            dangling = any(not match[1] for match in self._escaped.finditer(data))
            data = self._escaped.sub(lambda match: b"\0" * len(match[0]), data)
        text = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero((text == _LF) | (text == _CR))
        quotes = np.flatnonzero(text == _QUOTE)
        opening = self._opening(text, quotes)
        if not opening.any():
            is_open = closed = False
        elif self._well_placed(quotes, opening):
            is_open, closed = bool(quotes.size % 2), bool(quotes[-1] == text.size - 1)
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        else:
            ends, is_open, closed = self._scan_any(data, ends, quotes[opening])
        at_end = ends.size > 0 and ends[-1] == text.size - 1
        if text.size == 0 or at_end:
            return Scan(ends, b"", open=False)
        if is_open:
            state = b'"'
        elif closed:
            state = b'""'  # another quote would double the closing one
        else:
            state = data[-1:] if data[-1:] == self.delimiter.encode() else b"x"
        if dangling:
            state += (self.escape or "").encode()
        return Scan(ends, state, is_open or dangling)

    def _opening(self, text: NDArray[np.uint8], quotes: Positions) -> NDArray[np.bool_]:
        """Which quotes stand where a field may begin; only there one opens a quoted field."""
        before = text[quotes - 1]
        opening: NDArray[np.bool_] = (before == ord(self.delimiter)) | (before == _LF) | (before == _CR)
        opening[quotes == 0] = True
        return opening

    def _well_placed(self, quotes: Positions, opening: NDArray[np.bool_]) -> bool:
        """Whether every second quote opens a field, or doubles the quote before it: then inside is odd."""
        right = opening[::2].copy()
        if not self.escape:
            right[1:] |= quotes[1:-1:2] == quotes[2::2] - 1
        return bool(right.all())

    def _scan_any(self, data: bytes, ends: Positions, opening: Positions) -> tuple[Positions, bool, bool]:
        starts, stops, closed = [], [0], True
        for start in opening.tolist():
            # One that stands inside the quotes before opens nothing; what follows a closing quote is literal.
            if start >= stops[-1] and (field := self._inside.match(data, start + 1)):
                starts.append(start)
                stops.append(field.end())
                closed = bool(field[1])
        nearest = np.searchsorted(starts, ends, side="right")  # 0: before the first
        outside = ends >= np.array(stops)[nearest]
        return ends[outside], not closed, closed and stops[-1] == len(data)


def dialect_of(layout: Layout) -> Dialect:
    """The dialect of the CSV files of a table."""
    return Dialect(layout.delimiter, layout.escape)


def records_in(data: bytes, dialect: Dialect) -> list[bytes]:
    """Split a block into its records without their line ends; blank lines are none."""
    starts = ends = dialect.scan(data).ends
    starts, ends = np.append([0], starts + 1), np.append(ends, len(data))
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True) if end > start]


def open_text(uri: str) -> IO[bytes]:
    """Open a CSV file, plain or ``.gz``, behind its byte order mark.

    Raises:
        UnicodeError: it is UTF-16.
    """
    with ExitStack() as stack:
        text: Any = gzip.open(uri) if uri.lower().endswith(".gz") else Path(uri).open("rb")  # noqa: SIM115
        stack.callback(text.close)
        head = text.peek(len(_BOM))[: len(_BOM)]
        if head.startswith(_UTF_16):
            raise UnicodeError("UTF-16, not UTF-8")
        if head == _BOM:
            text.read(len(_BOM))
        stack.pop_all()  # it stays open for the caller
    return cast("IO[bytes]", text)


def chunks(text: IO[bytes], dialect: Dialect, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Read a file piece by piece; one of nothing but blanks and line ends has no piece."""
    blank = b" \t\r\n".replace(dialect.delimiter.encode(), b"")
    pending = b""
    while piece := text.read(block_bytes):
        pending += piece
        if pending.strip(blank):
            yield pending
            break
    while piece := text.read(block_bytes):
        yield piece


def blocks(
    text: IO[bytes], dialect: Dialect, *, block_bytes: int = BLOCK_BYTES, record_bytes: int = RECORD_BYTES
) -> Iterator[Block]:
    """Cut a file into blocks of whole records.

    Order and bytes stay. A record that stays open to the end of the file comes as a block of its own with the
    reason ``open_quote``. Memory: some times ``block_bytes``, and ``record_bytes`` more for a long record.
    """
    pieces = chunks(text, dialect, block_bytes)
    rest = b""
    for piece in pieces:
        rest += piece
        found = dialect.scan(rest)
        if found.ends.size:
            cut = int(found.ends[-1]) + 1
            yield Block(rest[:cut])
            rest = rest[cut:]
        elif len(rest) > record_bytes:
            block, rest = _too_large(rest, found, pieces, dialect)
            yield block
    found = dialect.scan(rest)
    cut = int(found.ends[-1]) + 1 if found.ends.size else 0
    if cut:
        yield Block(rest[:cut])
    if rest[cut:]:
        yield Block(rest[cut:], "open_quote: to the end of the file" if found.open else None)


def _too_large(head: bytes, found: Scan, pieces: Iterator[bytes], dialect: Dialect) -> tuple[Block, bytes]:
    """Read on to the end of a record without keeping it; also returns what was read behind it."""
    size = len(head)
    for piece in pieces:
        before = len(found.state)
        found = dialect.scan(found.state + piece)
        if found.ends.size:
            end = int(found.ends[0]) - before
            return too_large(head, size + end), piece[end + 1 :]
        size += len(piece)
    if found.open:
        kept = head[:KEPT_BYTES]
        return Block(kept, f"open_quote: to the end of the file, {size} bytes, {len(kept)} kept"), b""
    return too_large(head, size), b""


def too_large(record: bytes, size: int) -> Block:
    """The bad record for one of ``size`` bytes, more than are taken."""
    kept = record[:KEPT_BYTES]
    return Block(kept, f"field_too_large: {size} bytes in one record, {len(kept)} kept")


def count_records(uri: str, dialect: Dialect, *, block_bytes: int = BLOCK_BYTES) -> int:
    """Count the records of a CSV file, its header among them, with bounded memory.

    Counts line ends outside quotes that are not those of blank lines, and a last record without line end. A
    file that cannot be read as text at all counts as one, as it is one bad record.
    """
    count, state = 0, b""
    try:
        with open_text(uri) as text:
            for piece in chunks(text, dialect, block_bytes):
                found = dialect.scan(state + piece)
                count += int(np.count_nonzero(np.diff(found.ends, prepend=-1) > 1))
                state = found.state
    except (UnicodeError, *UNREADABLE):
        return 1
    return count + bool(state)
