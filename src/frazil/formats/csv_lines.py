"""Cut CSV bytes of any encoding into whole records, and count them, without taking them apart.

A line end inside quotes belongs to its field, so the scan needs the positions of quotes. NumPy finds them for millions
of bytes at once if every quote is well placed; otherwise a regular expression does.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from frazil.storage.files import storage_of, unpacked

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    Positions = NDArray[np.int64]

UTF_8: Final = "utf-8"
_READ_BYTES: Final = 1024 * 1024
_AS_IT_IS: Final = "surrogateescape"
BLOCK_BYTES: Final = 4 * 1024 * 1024
"""How much is read at a time: the records of about one batch, and the memory a file needs."""

RECORD_BYTES: Final = 16 * 1024 * 1024
"""A record of more bytes than this is bad: its row has the first ``KEPT_BYTES``, and parts have the others."""

KEPT_BYTES: Final = 1024 * 1024

LINE_ENDS: Final = b"\r\n"

OPEN_QUOTE: Final = "open_quote: to the end of the file"

UNREADABLE = (EOFError, gzip.BadGzipFile, zlib.error)
"""Errors of reading a truncated or damaged compressed file."""

_QUOTE, _LF, _CR = b'"\n\r'
_CR_BYTE: Final = b"\r"
_NOWHERE: Final = np.array([], np.int64)
BOM: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


class Scan(NamedTuple):
    """Where the records in a piece of text end, and what goes on after it.

    Attributes:
        ends: positions of the line-end bytes outside quotes, ascending.
        quotes: positions of the quotes, without escaped ones.
        doubled: number of quotes that double the one before; None if an unquoted field has a quote.
        stray: positions of closing quotes that are not followed by a delimiter or a line end.
        state: bytes after which a scanner is in the same state as at the end of this text; empty at a line end.
        open: the text ends inside quotes or after an escape character.
    """

    ends: Positions
    quotes: Positions
    doubled: int | None
    stray: Positions
    state: bytes
    open: bool

    def between(self, start: int, stop: int) -> Scan:
        """Return the scan of the whole records from ``start`` to ``stop``, with positions relative to ``start``."""
        found = (self.ends, self.quotes, self.stray)
        ends, quotes, stray = (at[np.searchsorted(at, start) : np.searchsorted(at, stop)] - start for at in found)
        doubled = None if self.doubled is None else _doubled(quotes)
        return Scan(ends, quotes, doubled, stray, b"", open=False)


class Block(NamedTuple):
    """A piece of a CSV file.

    Attributes:
        data: whole records with their line ends; with a ``reason``, one record without its line end.
        found: the ends of its records; None with a ``reason`` and for a part.
        reason: why the single record cannot be parsed.
        end: with a ``reason``, the line end of the record, unless a part has it.
        is_part: the data are bytes of the following record that are too many for one row, and its line end.
    """

    data: bytes
    found: Scan | None = None
    reason: str | None = None
    end: bytes = b""
    is_part: bool = False


@dataclass(frozen=True)
class CsvDialect:
    """The settings of a CSV file.

    Attributes:
        delimiter: separator of fields.
        escape: escape character of a quote inside quotes; None if quotes are doubled.
        null_value: an unquoted field with this text is NULL, like an empty unquoted field.
        encoding: Python's name of the encoding, which must be a superset of ASCII.
        unsaid: a field with this text has no value, not even NULL: the record does not carry it; None for no such text.
        no_text: an unquoted field with this text makes its record bad: it is NULL in a form that the file has not.
    """

    delimiter: str = ","
    escape: str | None = None
    null_value: str = "NULL"
    encoding: str = UTF_8
    unsaid: str | None = None
    no_text: str | None = None

    @cached_property
    def _inside(self) -> re.Pattern[bytes]:
        """Return the pattern of a quoted field after its opening quote, with the closing quote if any."""
        return re.compile(b'[^"]*("?)' if self.escape else b'[^"]*(?:""[^"]*)*("?)')

    @cached_property
    def _escaped(self) -> re.Pattern[bytes]:
        return re.compile(re.escape((self.escape or "").encode()) + b"(.|$)", re.DOTALL)

    def scan(self, data: bytes) -> Scan:
        """Find the ends of the records in ``data``, which begins at the start of a record.

        Cost: a few NumPy passes over the bytes; a regular expression if unquoted fields have quotes.
        """
        dangling = False
        if self.escape and self.escape.encode() in data:
            dangling = any(not match[1] for match in self._escaped.finditer(data))
            data = self._escaped.sub(lambda match: b"\0" * len(match[0]), data)
        text = np.frombuffer(data, np.uint8)
        ends, quotes = _positions(text, data, _LF), _positions(text, data, _QUOTE)
        if _CR_BYTE in data:
            ends = np.flatnonzero((text == _LF) | (text == _CR))
        opening = self._opening(text, quotes)
        stray, doubled = _NOWHERE, 0 if not quotes.size else None
        if not opening.any():
            is_open = closed = False
        elif self._well_placed(quotes, opening):
            is_open, closed = bool(quotes.size % 2), bool(quotes[-1] == text.size - 1)
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
            stray, doubled = self._stray(text, quotes[1::2]), _doubled(quotes)
        else:
            ends, stray, is_open, closed = self._scan_any(data, ends, quotes[opening])
        at_end = ends.size > 0 and ends[-1] == text.size - 1
        if text.size == 0 or at_end:
            return Scan(ends, quotes, doubled, stray, b"", open=False)
        if is_open:
            state = b'"'
        elif closed:
            state = b'""'  # another quote would double the closing one
        else:
            state = data[-1:] if data[-1:] == self.delimiter.encode() else b"x"
        if dangling:
            state += (self.escape or "").encode()
        return Scan(ends, quotes, doubled, stray, state, is_open or dangling)

    def _opening(self, text: NDArray[np.uint8], quotes: Positions) -> NDArray[np.bool_]:
        """Return a mask of the quotes at the beginning of a field, where a quote opens a quoted field."""
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

    def _stray(self, text: NDArray[np.uint8], closing: Positions) -> Positions:
        """Keep the quotes behind which text stands; one that is doubled closes nothing."""
        after = text[np.minimum(closing + 1, text.size - 1)]
        sound = (after == ord(self.delimiter)) | (after == _LF) | (after == _CR) | (after == _QUOTE)
        found: Positions = closing[~sound & (closing + 1 < text.size)]
        return found

    def _scan_any(self, data: bytes, ends: Positions, opening: Positions) -> tuple[Positions, Positions, bool, bool]:
        starts, stops, closed = [], [0], True
        for start in opening.tolist():
            # A quote inside other quotes opens no field; text after a closing quote is literal.
            if start >= stops[-1] and (field := self._inside.match(data, start + 1)):
                starts.append(start)
                stops.append(field.end())
                closed = bool(field[1])
        nearest = np.searchsorted(starts, ends, side="right")  # 0: before the first
        outside = ends >= np.array(stops)[nearest]
        last = len(starts) if closed else len(starts) - 1
        sound = self.delimiter.encode() + LINE_ENDS
        stray = [stop - 1 for stop in stops[1 : last + 1] if stop < len(data) and data[stop] not in sound]
        return ends[outside], np.array(stray, np.int64), not closed, closed and stops[-1] == len(data)


def _positions(text: NDArray[np.uint8], data: bytes, sign: int) -> Positions:
    return np.flatnonzero(text == sign) if sign in data else _NOWHERE


def _doubled(quotes: Positions) -> int:
    """Count the quotes that double the one before, where each second one opens a field or does so."""
    return int(np.count_nonzero(quotes[1:-1:2] == quotes[2::2] - 1))


def records_in(data: bytes, dialect: CsvDialect) -> list[bytes]:
    """Split a block into its records without their line ends; blank lines are skipped."""
    starts = ends = dialect.scan(data).ends
    starts, ends = np.append([0], starts + 1), np.append(ends, len(data))
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True) if end > start]


def open_text(uri: str, encoding: str = UTF_8) -> IO[bytes]:
    """Open a CSV file, plain or ``.gz``, behind its byte order mark; what is read is UTF-8.

    Raises:
        UnicodeError: it is UTF-16.
    """
    return open_behind_mark(uri, encoding)[0]


def open_behind_mark(uri: str, encoding: str = UTF_8) -> tuple[IO[bytes], bytes]:
    """Open a CSV file as :func:`open_text` does; also returns its byte order mark, if it has one.

    Raises:
        UnicodeError: it is UTF-16.
    """
    with ExitStack() as stack:
        text: Any = stack.enter_context(unpacked(uri) if is_gzip(uri) else storage_of(uri).open(uri))
        head = text.peek(len(BOM))[: len(BOM)]
        if head.startswith(_UTF_16):
            raise UnicodeError("UTF-16, not UTF-8")
        mark = text.read(len(BOM)) if head == BOM else b""
        text = text if encoding == UTF_8 else as_utf_8(text, encoding)
        stack.pop_all()  # it stays open for the caller
    return cast("IO[bytes]", text), mark


def is_gzip(name: str) -> bool:
    """Whether a file is compressed, by its name."""
    return name.lower().endswith(".gz")


def chunks(text: IO[bytes], dialect: CsvDialect, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Read a file in pieces; a file of only blanks and line ends has none.

    Args:
        text: the file.
        dialect: its settings.
        block_bytes: size of a piece.
    """
    blank = b" \t\r\n".replace(dialect.delimiter.encode(), b"")
    pending = []
    while piece := text.read(block_bytes):
        pending.append(piece)
        if piece.strip(blank):
            yield b"".join(pending)
            break
    while piece := text.read(block_bytes):
        yield piece


def blocks(
    text: IO[bytes], dialect: CsvDialect, *, block_bytes: int = BLOCK_BYTES, record_bytes: int = RECORD_BYTES
) -> Iterator[Block]:
    """Cut a file into blocks of whole records.

    The blocks have all bytes of the file in order. A block begins with a record, except for line ends at the beginning
    of the file; blank lines belong to the record before them. A record with a quote that is still open at the end of
    the file is a block of its own with the reason ``open_quote``. A record of more than ``record_bytes`` becomes parts,
    and then a block with its beginning and the reason ``field_too_large``.

    Args:
        text: the file.
        dialect: its settings.
        block_bytes: how much is read at a time.
        record_bytes: size limit of a record.

    Cost: memory of a few times ``block_bytes``, and ``record_bytes`` for a long record.
    """
    pieces = chunks(text, dialect, block_bytes)
    rest = b""
    for piece in pieces:
        rest += piece
        found = dialect.scan(rest)
        if cut := _last_start(found.ends, len(rest)):
            yield Block(rest[:cut], found.between(0, cut))
            rest = rest[cut:]
        elif not found.ends.size and len(rest) > record_bytes:
            rest = yield from _too_large(rest, found, pieces, dialect)
    found = dialect.scan(rest)
    cut = len(rest)
    if found.open:
        cut = int(found.ends[-1]) + 1 if found.ends.size else 0
    if cut:
        yield Block(rest[:cut], found.between(0, cut))
    if rest[cut:]:
        yield Block(rest[cut:], reason=OPEN_QUOTE)


def _last_start(ends: Positions, size: int) -> int:
    """Find where the last record begins that may go on, or may be followed by further line ends."""
    if not ends.size or ends[-1] != size - 1:
        return int(ends[-1]) + 1 if ends.size else 0
    filled = np.flatnonzero(np.diff(ends, prepend=-1) > 1)
    last = int(filled[-1]) if filled.size else 0
    return int(ends[last - 1]) + 1 if last else 0


def _too_large(head: bytes, found: Scan, pieces: Iterator[bytes], dialect: CsvDialect) -> Generator[Block, None, bytes]:
    """Read on to the end of a record, giving it out in parts; returns what was read behind it."""
    kept, size, rest = b"", 0, b""
    own = head
    while own:
        size += len(own)
        room = KEPT_BYTES - len(kept)
        kept += own[:room]
        if own[room:]:
            yield Block(own[room:], is_part=True)
        if rest or not (piece := next(pieces, b"")):
            break
        before = len(found.state)
        found = dialect.scan(found.state + piece)
        cut = int(found.ends[0]) - before if found.ends.size else len(piece)
        own, rest = piece[:cut], piece[cut:]
    if found.open and not rest:
        yield Block(kept, reason=f"{OPEN_QUOTE}, {size} bytes{_of_which(size, kept)}")
        return b""
    end = b""
    while rest and not rest.strip(LINE_ENDS):
        end += rest
        rest = next(pieces, b"")
    behind = rest.lstrip(LINE_ENDS)
    end += rest[: len(rest) - len(behind)]
    if size > len(kept):
        yield Block(end, is_part=True)
        end = b""
    yield Block(kept, reason=too_large(size, kept), end=end)
    return behind


def too_large(size: int, kept: bytes) -> str:
    """Return the message that a record has more bytes than are taken, and how many of them its row keeps."""
    return f"field_too_large: {size} bytes in one record{_of_which(size, kept)}"


def _of_which(size: int, kept: bytes) -> str:
    return "" if size == len(kept) else f", the first {len(kept)} here"


def count_records(uri: str, dialect: CsvDialect, *, block_bytes: int = BLOCK_BYTES) -> int:
    """Count the records of a CSV file, including its header, with bounded memory.

    Blank lines are not counted. A file that cannot be read as text counts as one bad record.

    Args:
        uri: the file.
        dialect: its settings.
        block_bytes: how much is read at a time.
    """
    count, state = 0, b""
    try:
        with open_text(uri, dialect.encoding) as text:
            for piece in chunks(text, dialect, block_bytes):
                found = dialect.scan(state + piece)
                count += int(np.count_nonzero(np.diff(found.ends, prepend=-1) > 1))
                state = found.state
    except (UnicodeError, *UNREADABLE):
        return 1
    return count + bool(state)


def as_utf_8(text: IO[bytes], encoding: str) -> IO[bytes]:
    """Return a file that is read as UTF-8; a byte that is invalid in its encoding stays as an invalid byte of UTF-8."""
    return cast("IO[bytes]", io.BufferedReader(_Recoded(text, encoding), _READ_BYTES))


class _Recoded(io.RawIOBase):
    """A file whose bytes are decoded and encoded again."""

    def __init__(self, text: IO[bytes], encoding: str) -> None:
        self._text = text
        self._decoder = codecs.getincrementaldecoder(encoding)(_AS_IT_IS)
        self._rest, self._ended = b"", False

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Read some bytes; none at the end."""
        into = memoryview(buffer)
        while not self._rest and not self._ended:
            data = self._text.read(_READ_BYTES)
            self._ended = not data
            self._rest = self._decoder.decode(data, self._ended).encode(errors=_AS_IT_IS)
        count = min(len(into), len(self._rest))
        into[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def close(self) -> None:
        """Close the file, too."""
        self._text.close()
        super().close()
