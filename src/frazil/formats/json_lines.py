"""JSON lines: one object a line, every value as the exact text it was."""

from __future__ import annotations

import hashlib
import json
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa

from frazil.formats.csv_lines import BLOCK_BYTES, KEPT_BYTES, RECORD_BYTES, is_gzip, open_behind_mark, too_large
from frazil.formats.records import CSV, Bad, Parsed, Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_BATCH_RECORDS: Final = 8_192
_BLANK: Final = b" \t\r\n"


class _Number(str):
    """The text of a number."""

    __slots__ = ()


class _WrongRecordError(Exception):
    """A line that is no record."""


class JsonLinesFile:
    """The records of a file of JSON lines.

    A string is its text, a number its digits, true and false are words, and what is nested is JSON. A field that is
    null is NULL; one that is left out is not carried by the record (MISSING-IS-NOT-NULL). A line that is no object, or
    names a field twice without regard to case, is a bad record.

    Args:
        uri: the file; one that ends in ``.gz`` is decompressed.
        columns: lower-case name of a field -> the column that it goes to.
        block_bytes: some batches are yielded each time so much was read.
        record_bytes: records of more bytes are bad.
    """

    def __init__(
        self,
        uri: str,
        columns: Mapping[str, str],
        *,
        block_bytes: int = BLOCK_BYTES,
        record_bytes: int = RECORD_BYTES,
    ) -> None:
        self.head = b""
        self._uri, self._columns = uri, dict(columns)
        self._block_bytes, self._record_bytes = block_bytes, record_bytes
        self._hash = hashlib.sha256() if is_gzip(uri) else None

    def form(self) -> dict[str, Any]:
        """Return that every record has its own bytes, each ended by a line feed unless it says otherwise."""
        return {
            "content": CSV,
            "content_sha256": self._hash.hexdigest() if self._hash else None,
            "delimiter": ",",
            "escape": None,
            "null_value": "",
            "null_text": "",
            "line_end": "\n",
            "quoted": [],
            "table": None,
            "schema": None,
        }

    def __iter__(self) -> Iterator[Parsed]:
        """Read all records in order; once only."""
        text, mark = open_behind_mark(self._uri)
        with text:
            self._read(mark)
            self.head += mark
            row, size, batch = 0, 0, _Batch(self._columns)
            for line, end, rest in self._lines(text):
                row, size = row + 1, size + len(line)
                if rest or len(line) > self._record_bytes:
                    if batch:
                        yield batch.parsed()
                    whole = len(line) + sum(map(len, rest))
                    yield _large(row, line, rest, end, whole)
                    size, batch = 0, _Batch(self._columns)
                    continue
                batch.add(row, line, end)
                if size >= self._block_bytes or batch.rows >= _BATCH_RECORDS:
                    yield batch.parsed()
                    size, batch = 0, _Batch(self._columns)
            if batch:
                yield batch.parsed()

    def _lines(self, text: IO[bytes]) -> Iterator[tuple[bytes, bytes, list[bytes]]]:
        """Yield each line that is not blank: its beginning, what ends it, blank lines among that, and its rest."""
        pending: tuple[bytes, bytes, list[bytes]] | None = None
        while data := self._read(text.readline(self._record_bytes + 1)):
            rest: list[bytes] = []
            while not (rest[-1] if rest else data).endswith(b"\n"):
                if not (more := self._read(text.readline(self._record_bytes))):
                    break
                rest.append(more)
            if not data.strip(_BLANK) and not rest:
                if pending is None:
                    self.head += data
                else:
                    pending = (pending[0], pending[1] + data, pending[2])
                continue
            if pending is not None:
                yield pending
            last = rest[-1] if rest else data
            end = last[len(last.rstrip(b"\r\n")) :]
            if rest:
                rest[-1] = last[: len(last) - len(end)]
            else:
                data = last[: len(last) - len(end)]
            pending = (data, end, [piece for piece in rest if piece])
        if pending is not None:
            yield pending

    def _read(self, data: bytes) -> bytes:
        if self._hash:
            self._hash.update(data)
        return data


class _Batch:
    """Some records, on their way to columns."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._rows: list[int] = []
        self._raw: list[bytes] = []
        self._ends: list[bytes | None] = []
        self._values: list[dict[str, str | None]] = []
        self._bad: list[Bad] = []

    def __bool__(self) -> bool:
        """Return whether there is anything in it."""
        return self.rows > 0

    @property
    def rows(self) -> int:
        """Number of records, bad ones among them."""
        return len(self._rows) + len(self._bad)

    def add(self, row: int, line: bytes, end: bytes) -> None:
        """Add a line."""
        other_end = None if end == b"\n" else end
        try:
            values = _values_of(line)
        except _WrongRecordError as error:
            self._bad.append(Bad(row, f"{error}", line, other_end))
            return
        self._rows.append(row)
        self._raw.append(line)
        self._ends.append(other_end)
        self._values.append(values)

    def parsed(self) -> Parsed:
        """Return all that was added."""
        names = list(self._columns)
        fields = {
            self._columns[name]: pa.array([values.get(name) for values in self._values], pa.string()) for name in names
        }
        known = None
        if any(len(values.keys() & self._columns.keys()) < len(names) for values in self._values):
            carried = [[self._columns[name] for name in names if name in values] for values in self._values]
            known = pa.array(carried, pa.list_(pa.string()))
        return Parsed(
            fields,
            pa.array(self._rows, pa.int64()),
            pa.array(self._raw, pa.binary()),
            pa.array(self._ends, pa.binary()) if any(end is not None for end in self._ends) else None,
            self._bad,
            known=known,
        )


def _values_of(line: bytes) -> dict[str, str | None]:
    """Return the fields of a line by their lower-case names, as text."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise _WrongRecordError(f"encoding: invalid UTF-8 at byte {error.start + 1}") from None
    try:
        pairs = json.loads(
            text, object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise _WrongRecordError(f"malformed_json: {error}") from None
    if not isinstance(pairs, _Pairs):
        raise _WrongRecordError("malformed_json: not an object")
    found = {name.lower(): _text(value) for name, value in pairs}
    if len(found) < len(pairs):
        raise _WrongRecordError("malformed_json: a field is named twice")
    return found


def fields_in(lines: Iterable[bytes]) -> tuple[str, ...]:
    """Return the names of all fields of a file, in the order in which they first come; bad lines name none.

    Cost: parses every line.
    """
    found: dict[str, str] = {}
    for line in lines:
        try:
            pairs = json.loads(line, object_pairs_hook=_Pairs)
        except (ValueError, RecursionError):
            continue
        if isinstance(pairs, _Pairs):
            for name, _ in pairs:
                found.setdefault(name.lower(), name)
    return tuple(found.values())


class _Pairs(list[tuple[str, Any]]):
    """An object, its fields in order."""


def _no_constant(name: str) -> str:
    raise ValueError(f"{name} is no JSON value")


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    return _json(value)


def _json(value: Any) -> str:
    """Write a value as JSON, numbers as they were."""
    match value:
        case _Number():
            return str(value)
        case _Pairs():
            return "{" + ", ".join(f"{json.dumps(name)}: {_json(inner)}" for name, inner in value) + "}"
        case list():
            return "[" + ", ".join(map(_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _large(row: int, line: bytes, rest: list[bytes], end: bytes, size: int) -> Parsed:
    """Return a record that is too large: its first bytes in its row, the others in parts."""
    kept, behind = line[:KEPT_BYTES], [line[KEPT_BYTES:], *rest]
    if not any(behind):
        return Parsed(bad=[Bad(row, too_large(size, kept), kept, None if end == b"\n" else end)])
    parts, offset = [], 0
    for piece in filter(None, [*behind, end]):
        parts.append(Part(row, offset, piece))
        offset += len(piece)
    return Parsed(bad=[Bad(row, too_large(size, kept), kept, b"")], parts=parts)
