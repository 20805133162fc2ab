"""JSON lines: one object a line, taken apart exactly, every value as the text it was."""

from __future__ import annotations

import hashlib
import json
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from frazil.formats.csv_lines import BLOCK_BYTES, KEPT_BYTES, RECORD_BYTES, is_gzip, open_behind_mark, too_large
from frazil.formats.records import CSV, Bad, Parsed, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from frazil.formats.records import OwnRecords


ARRAY: Final = "one JSON array"
PRETTY: Final = "JSON over several lines"
SEVERAL: Final = "several objects on one line"
CONSOLE: Final = "the output of a console, with more on a line than the value"

LINES_HINTS: Final = {
    ARRAY: "write one object a line: jq -c '.[]'",
    PRETTY: "write one object a line: jq -c .",
    SEVERAL: "write one object a line: jq -c .",
    CONSOLE: "write values alone, or messages as objects: kcat -J; kafka-console-consumer without print.key",
}


def lines_form(first: str) -> str | None:
    """Describe a file that has other JSON than lines, from its first bad line; None for an unknown form.

    Args:
        first: the first line that cannot be parsed.
    """
    line = first.strip()
    if line in ("{", "[", "[{") or (line[:1] == "{" and line[-1:] in ("{", "[", ",")):
        return ARRAY if line[0] == "[" else PRETTY
    if line[:1] == "[":
        return ARRAY
    if line[:1] == "{":
        if "}\t{" in line:
            return CONSOLE
        return SEVERAL if "}{" in line or "} {" in line else None
    return CONSOLE if "{" in line and line[-1:] == "}" else None


_BATCH_RECORDS: Final = 8_192
_BLANK: Final = b" \t\r\n"

FieldsOf: TypeAlias = "Callable[[str], Mapping[str, str | None] | None]"
"""Takes a line, and returns its fields by their lower-case names; None where it belongs to another table. It raises
:class:`NoObjectError` for a bad record."""


class JsonLinesFile:
    """The records of a file of JSON lines.

    A string becomes its text, a number its digits, true and false are words, and nested values are JSON. A null field
    is NULL; the record does not carry a missing field (MISSING-IS-NOT-NULL). A line is a bad record if it is not an
    object, or names a field twice without regard to case.

    Args:
        uri: the file; one that ends in ``.gz`` is decompressed.
        columns: lower-case name of a field -> its column.
        own: filter of records; None to keep all.
        fields_of: parses a line; None for :func:`own_fields`.
        block_bytes: batches are yielded each time this much was read.
        record_bytes: longer records are bad.
    """

    def __init__(
        self,
        uri: str,
        columns: Mapping[str, str],
        own: OwnRecords | None = None,
        fields_of: FieldsOf | None = None,
        /,
        *,
        block_bytes: int = BLOCK_BYTES,
        record_bytes: int = RECORD_BYTES,
    ) -> None:
        self.head = b""
        self._uri, self._columns, self._own = uri, dict(columns), own
        self._fields_of = fields_of or own_fields
        self._block_bytes, self._record_bytes = block_bytes, record_bytes
        self._hash = hashlib.sha256() if own or fields_of or is_gzip(uri) else None

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
            self._add_to_head(mark)
            row, size, batch = 0, 0, _Batch(self._columns, self._own, self._fields_of)
            for line, end, rest in self._lines(text):
                row, size = row + 1, size + len(line)
                if rest or len(line) > self._record_bytes:
                    if batch:
                        yield batch.parsed()
                    whole = len(line) + sum(map(len, rest))
                    self._add_to_hash(line, *rest, end)
                    yield _large(row, line, rest, end, whole)
                    size, batch = 0, _Batch(self._columns, self._own, self._fields_of)
                    continue
                if batch.add(row, line, end):
                    self._add_to_hash(line, end)
                if size >= self._block_bytes or batch.rows >= _BATCH_RECORDS:
                    yield batch.parsed()
                    size, batch = 0, _Batch(self._columns, self._own, self._fields_of)
            if batch:
                yield batch.parsed()

    def _lines(self, text: IO[bytes]) -> Iterator[tuple[bytes, bytes, list[bytes]]]:
        """Yield each line that is not blank: its beginning, what ends it, blank lines among that, and its rest."""
        pending: tuple[bytes, bytes, list[bytes]] | None = None
        while data := text.readline(self._record_bytes + 1):
            rest: list[bytes] = []
            while not (rest[-1] if rest else data).endswith(b"\n"):
                if not (more := text.readline(self._record_bytes)):
                    break
                rest.append(more)
            if not data.strip(_BLANK) and not rest:
                if pending is None:
                    self._add_to_head(data)
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

    def _add_to_head(self, data: bytes) -> None:
        self.head += data
        self._add_to_hash(data)

    def _add_to_hash(self, *pieces: bytes) -> None:
        if self._hash:
            for piece in pieces:
                self._hash.update(piece)


class _Batch:
    """Some records, on their way to columns."""

    def __init__(self, columns: Mapping[str, str], own: OwnRecords | None, fields_of: FieldsOf) -> None:
        self._columns, self._own, self._fields_of = columns, own, fields_of
        self._foreign = 0
        self._rows: list[int] = []
        self._raw: list[bytes] = []
        self._ends: list[bytes | None] = []
        self._values: list[Mapping[str, str | None]] = []
        self._bad: list[Bad] = []

    def __bool__(self) -> bool:
        """Return whether there is anything in it."""
        return self.rows > 0

    @property
    def rows(self) -> int:
        """Number of records, bad ones among them."""
        return len(self._rows) + len(self._bad) + self._foreign

    def add(self, row: int, line: bytes, end: bytes) -> bool:
        """Add a line; return whether its record is kept.

        Args:
            row: ordinal of the record in the file.
            line: the line's bytes without its end.
            end: the line end, with following blank lines.
        """
        other_end = None if end == b"\n" else end
        try:
            values = self._fields_of(_decoded(line))
        except NoObjectError as error:
            said = {self._columns[name]: value for name, value in error.said.items() if name in self._columns}
            self._bad.append(Bad(row, f"{error}", line, other_end, said))
            return True
        if values is None or not self._is_own(values):
            self._foreign += 1
            return False
        self._rows.append(row)
        self._raw.append(line)
        self._ends.append(other_end)
        self._values.append(values)
        return True

    def _is_own(self, values: Mapping[str, str | None]) -> bool:
        return self._own is None or self._own.is_own(*(values.get(name.lower()) for name in self._own.fields))

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
            foreign=self._foreign,
            known=known,
        )


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise NoObjectError(f"encoding: invalid UTF-8 at byte {error.start + 1}") from None


def own_fields(text: str) -> dict[str, str | None]:
    """Return the fields of the object that a line is, by their lower-case names."""
    try:
        return {name.lower(): value for name, value in object_fields(text)}
    except NoObjectError as error:
        form = lines_form(text)
        raise NoObjectError(f"{error}" if form is None else f"{error}; {form}: {LINES_HINTS[form]}") from None


def fields_in(lines: Iterable[bytes]) -> tuple[str, ...]:
    """Return the names of all fields of a file, in the order in which they first come; bad lines name none.

    Cost: parses every line.
    """
    found: dict[str, str] = {}
    for line in lines:
        try:
            pairs = json.loads(line, object_pairs_hook=Pairs)
        except (ValueError, RecursionError):
            continue
        if isinstance(pairs, Pairs):
            for name, _ in pairs:
                found.setdefault(name.lower(), name)
    return tuple(found.values())


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


class NoObjectError(Exception):
    """A text is not a JSON object, names a field twice, or holds a value that cannot be decoded.

    Attributes:
        said: fields of the record that can still be read, by lower-case name: its key and its place; else empty.
    """

    def __init__(self, reason: str, said: Mapping[str, str | None] | None = None) -> None:
        super().__init__(reason)
        self.said = dict(said or {})


class Number(str):
    """The digits of a number."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object, its fields in order."""


def parsed(text: str) -> Any:
    """Return a JSON text's value: objects as :class:`Pairs`, numbers as :class:`Number`.

    Raises:
        NoObjectError: the text is not valid JSON; the message says why.
    """
    try:
        return json.loads(
            text, object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise NoObjectError(f"malformed_json: {error}") from None


def object_fields(text: str) -> list[tuple[str, str | None]]:
    """Return the fields of an object in order: a string as its text, a number as its digits, what is nested as JSON.

    Raises:
        NoObjectError: the text is not an object; the message says why.
    """
    pairs = parsed(text)
    if not isinstance(pairs, Pairs):
        raise NoObjectError("malformed_json: not an object")
    found = [(name, text_of(value)) for name, value in pairs]
    if len({name.lower() for name, _ in found}) < len(found):
        raise NoObjectError("malformed_json: a field is named twice")
    if "\\u" in text:
        try:
            "".join(f"{name}{value}" for name, value in found).encode()
        except UnicodeEncodeError:
            raise NoObjectError("malformed_json: an unpaired surrogate") from None
    return found


def _no_constant(name: str) -> str:
    raise ValueError(f"{name} is not a JSON value")


def text_of(value: Any) -> str | None:
    """Return a value as text, NULL for null."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    return _json(value)


def _json(value: Any) -> str:
    """Write a value as JSON, numbers as they were."""
    match value:
        case Number():
            return str(value)
        case Pairs():
            return "{" + ", ".join(f"{json.dumps(name)}: {_json(inner)}" for name, inner in value) + "}"
        case list():
            return "[" + ", ".join(map(_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
