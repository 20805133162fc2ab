"""Parse blocks of CSV records: every field as its exact text, bad records as their bytes.

PyArrow parses a block. Records that PyArrow would silently misread are excluded before: an open quote, text after a
closing quote, invalid UTF-8, too large records, a byte order mark inside the file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from frazil.formats.csv_form import CsvForm, RecordSpans, other_lines
from frazil.formats.csv_lines import (
    BLOCK_BYTES,
    BOM,
    KEPT_BYTES,
    LINE_ENDS,
    RECORD_BYTES,
    UTF_8,
    Block,
    blocks,
    is_gzip,
    open_behind_mark,
    open_text,
    too_large,
)
from frazil.formats.records import CSV, UNNAMED, Bad, Parsed, Part, equals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from frazil.formats.csv_lines import CsvDialect, Scan
    from frazil.formats.records import OwnFilter


def header_of(record: bytes, dialect: CsvDialect) -> list[str]:
    """Return the names in a header record; a field left empty has the empty name.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    record.decode()
    if record.startswith(BOM):
        record = BOM + record  # PyArrow leaves out one mark; behind the beginning of a file it is text
    most = record.count(dialect.delimiter.encode()) + 1
    table = csv.read_csv(
        pa.BufferReader(record + b"\n"),
        read_options=csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(record) + 2),
        parse_options=parse_options(dialect),
        convert_options=csv.ConvertOptions(column_types={f"f{n}": pa.string() for n in range(most)}),
    )
    return [column[0].as_py() for column in table.columns]


def _with_last(pieces: Iterator[Block]) -> Iterator[tuple[Block, bool]]:
    """Yield each block, and whether it is the last one; reads one block ahead."""
    held: Block | None = None
    for piece in pieces:
        if held is not None:
            yield held, False
        held = piece
    if held is not None:
        yield held, True


class CsvFile:
    """The records of a CSV file.

    Args:
        uri: the file; one that ends in ``.gz`` is decompressed.
        dialect: delimiter, escape, NULL and encoding.
        names: target columns of its fields, in file order.
        header: whether the first record names the fields.
        own: filter of records; None to keep all.
        rejected: reason to reject all records; None to accept them.
        block_bytes: how much is read at a time.
        record_bytes: longer records are bad, with the reason ``field_too_large``.

    Attributes:
        head: the bytes before the first record, once the file is read.
    """

    def __init__(
        self,
        uri: str,
        dialect: CsvDialect,
        names: tuple[str, ...],
        *,
        header: bool,
        own: OwnFilter | None = None,
        rejected: str | None = None,
        block_bytes: int = BLOCK_BYTES,
        record_bytes: int = RECORD_BYTES,
    ) -> None:
        self.head = b""
        self._uri, self._dialect, self._header_due = uri, dialect, header
        self._block_bytes, self._record_bytes = block_bytes, record_bytes
        self._reader = BlockReader(dialect, names, record_bytes, own=own, rejected=rejected)
        is_other = bool(own) or is_gzip(uri) or dialect.encoding != UTF_8
        self._hash = hashlib.sha256() if is_other else None

    def form(self) -> dict[str, Any]:
        """Return how the bytes follow from the records.

        ``content_sha256`` is the hash of the text without the records that are not kept; None where that is the file
        as it is stored.
        """
        form, (table, schema) = self._reader.form, self._reader.constants or (None, None)
        quoted = zip(self._reader.names, form.quoted or (False,) * len(self._reader.names), strict=True)
        return {
            "content": CSV,
            "content_sha256": self._hash.hexdigest() if self._hash else None,
            "delimiter": form.delimiter,
            "escape": form.escape,
            "null_value": form.null_value,
            "null_text": form.null_text,
            "line_end": None if form.line_end is None else form.line_end.decode(),
            "quoted": [name for name, always in quoted if always],
            "table": table,
            "schema": schema,
        }

    def __iter__(self) -> Iterator[Parsed]:
        """Read all records in the order of the file, its header left out; once only.

        Raises:
            OSError, EOFError, zlib.error: the file cannot be read any more.
        """
        text, mark = open_behind_mark(self._uri, self._dialect.encoding)
        self._add_to_head(mark)
        is_blank = True
        with text:
            pieces = blocks(text, self._dialect, block_bytes=self._block_bytes, record_bytes=self._record_bytes)
            for found, is_last in _with_last(pieces) if self._reader.own else zip(pieces, repeat(False)):
                block = self._behind_head(found) if is_blank or self._header_due else found
                is_blank, self._reader.is_last = False, is_last
                if block.data:
                    parsed, own = self._reader.parse(block)
                    if self._hash:
                        for piece in own:
                            self._hash.update(piece)
                    yield parsed
        if is_blank:
            with open_text(self._uri, self._dialect.encoding) as text:
                self._add_to_head(text.read())

    def _add_to_head(self, data: bytes) -> None:
        self.head += data
        if self._hash:
            self._hash.update(data)

    def _behind_head(self, block: Block) -> Block:
        """Remove the header, and line ends before the first record, from the first blocks."""
        if block.found is None:
            return block
        data, size = block.data, len(block.data)
        start = size - len(data.lstrip(LINE_ENDS))
        if self._header_due and start < size:
            start += int(RecordSpans.of(data[start:], block.found.between(start, size)).nexts[0])
            self._header_due = False
        self._add_to_head(data[:start])
        return Block(data[start:], block.found.between(start, size))


NULL_TEXT: Final = "null_text"
_EMPTY: Final = "write NULL as an empty field, and a text in quotes"
MALFORMED_QUOTE: Final = "malformed_quote: text behind the closing quote of a field"


class BlockReader:
    """Parses the blocks of one file, in order.

    Attributes:
        names: columns that the fields go to, in file order.
        form: how the records are written, as far as they were read.
        is_last: the next block is the last one of its file; only set where there is a filter.
        constants: table and schema in the first record of a transaction file that is the table's own.
    """

    def __init__(
        self,
        dialect: CsvDialect,
        names: tuple[str, ...],
        record_bytes: int,
        *,
        own: OwnFilter | None = None,
        rejected: str | None = None,
    ) -> None:
        self.dialect, self.names, self.record_bytes = dialect, names, record_bytes
        self.own, self.rejected, self.is_last = own, rejected, False
        self.form = CsvForm(delimiter=dialect.delimiter, escape=dialect.escape, null_value=dialect.null_value)
        self.constants: tuple[str | None, str | None] | None = None
        self._row, self._offset = 1, 0
        delimiter = re.escape(dialect.delimiter)
        one = f'(?:"([^"]*)"|([^"{delimiter}]*))'
        self._first_three = re.compile(f"{one}{delimiter}{one}{delimiter}{one}(?={delimiter}|\\Z)")

    def parse(self, block: Block) -> tuple[Parsed, Iterable[bytes]]:
        """Parse a block; also returns those of its bytes that do not belong to other tables."""
        if block.is_part:
            self._offset += len(block.data)
            return Parsed(parts=[Part(self._row, self._offset - len(block.data), block.data)]), [block.data]
        if block.found is None:
            end = None if block.end == self.form.line_end and not self._offset else block.end
            bad, parts = self._bad(self._row, f"{block.reason}", block.data, end)
            self._row, self._offset = self._row + 1, 0
            return Parsed(bad=[bad], parts=parts), [block.data, block.end]
        return self._parse(RecordSpans.of(block.data, block.found), block.found)

    def _bad(self, row: int, reason: str, raw: bytes, end: bytes | None) -> tuple[Bad, list[Part]]:
        if len(raw) <= max(self.record_bytes, KEPT_BYTES):
            return Bad(row, reason, raw, end), []
        behind = (self.form.line_end or b"") if end is None else end
        return Bad(row, reason, raw[:KEPT_BYTES], b""), [Part(row, 0, raw[KEPT_BYTES:] + behind)]

    def _parse(self, cut: RecordSpans, found: Scan) -> tuple[Parsed, Iterable[bytes]]:
        count = len(cut.starts)
        if self.form.line_end is None:
            self.form = replace(self.form, line_end=cut.usual_end())
        others = cut.other_ends(self.form.line_end or b"")
        reasons = dict.fromkeys(range(count), self.rejected) if self.rejected else self._unsound(cut, found)
        fields = self._fields(cut, found, reasons)
        if self.dialect.no_text is not None and self.dialect.no_text.encode() in cut.data:
            fields = self._without_no_text(cut, fields, reasons, self.dialect.no_text)
        good = _all_but(reasons, count)
        foreign = np.zeros(count, np.bool_)
        if self.own:
            fields, good = self._kept(self.own, cut, fields, good, reasons, foreign)
        is_all = len(good) == count
        quoted, raw = _quoted(cut, found)[good], None
        fields, known = self._said(fields, quoted)
        if len(good):
            mine = cut if is_all else cut.chosen(good)
            raw = self._raw(mine, fields, found, quoted, is_all=is_all)
        bad, parts = [], []
        ends = {number: cut.end(number) for number in others.tolist() if not foreign[number]}
        for number in sorted(reasons):
            if not foreign[number]:
                one, more = self._bad(self._row + number, reasons[number], cut.record(number), ends.pop(number, None))
                bad.append(one)
                parts += more
        parsed = Parsed(
            fields,
            pa.array(good + self._row),
            raw,
            _scattered(ends, good) if ends else None,
            bad,
            parts,
            int(np.count_nonzero(foreign)),
            known,
        )
        self._row += count
        return parsed, [cut.data] if not parsed.foreign else _runs(cut, ~foreign)

    def _unsound(self, cut: RecordSpans, found: Scan) -> dict[int, str]:
        """Return the reasons of records that PyArrow must not see."""
        reasons: dict[int, str] = {}
        if found.stray.size:
            numbers = np.searchsorted(cut.starts, found.stray, side="right") - 1
            reasons |= dict.fromkeys(numbers.tolist(), MALFORMED_QUOTE)
        if not _is_utf8(cut.data):
            for number in range(len(cut.starts)):
                try:
                    cut.record(number).decode()
                except UnicodeDecodeError as error:
                    reasons[number] = f"encoding: invalid UTF-8 at byte {error.start + 1}"
        if len(cut.data) > self.record_bytes:
            sizes = cut.stops - cut.starts
            for number in np.flatnonzero(sizes > self.record_bytes).tolist():
                reasons[number] = too_large(int(sizes[number]), cut.record(number)[:KEPT_BYTES])
        return reasons

    def _fields(self, cut: RecordSpans, found: Scan, reasons: dict[int, str]) -> dict[str, Any]:
        """Parse the records without a reason; add a reason for records with another number of fields."""
        sound = _all_but(reasons, len(cut.starts))
        data = cut.data
        if len(sound) < len(cut.starts):
            data = b"\n".join(data[start:stop] for start, stop in _stretches(cut, sound)) + b"\n"
        elif not found.ends.size or found.ends[-1] != len(data) - 1:
            data += b"\n"  # without it an empty last field after a quoted one would not be NULL
        if not len(sound):
            return {name: pa.array([], pa.string()) for name in self.names}
        if data.startswith(BOM):
            data = b"\n" + data  # PyArrow would leave the mark out, which here is text
        invalid: list[tuple[int, int, int]] = []

        def keep(record: Any) -> str:
            invalid.append((record.number, record.actual_columns, record.expected_columns))
            return "skip"

        table = csv.read_csv(
            pa.BufferReader(data),
            # One block, so that PyArrow counts invalid records from its beginning.
            read_options=csv.ReadOptions(column_names=self.names, use_threads=False, block_size=len(data) + 1),
            parse_options=parse_options(self.dialect, keep),
            convert_options=csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(self.names, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=["", self.dialect.null_value],
            ),
        ).combine_chunks()
        for number, actual, expected in invalid:
            code = "too_many_fields" if actual > expected else "too_few_fields"
            reasons[int(sound[number - 1])] = f"{code}: {actual}, expected {expected}"
        return {name: _one_chunk(table.column(name)) for name in self.names}

    def _without_no_text(
        self, cut: RecordSpans, fields: dict[str, Any], reasons: dict[int, str], text: str
    ) -> dict[str, Any]:
        """Reject the records with an unquoted field that means NULL in other forms of text."""
        sound, sign = _all_but(reasons, len(cut.starts)), re.escape(self.dialect.delimiter)
        unquoted = re.compile(f"(?:^|{sign}){re.escape(text)}(?:{sign}|$)".encode())
        has_text = np.logical_or.reduce([equals(fields[name], text) for name in self.names])
        for number in sound[has_text].tolist():
            has_text[np.searchsorted(sound, number)] = bool(unquoted.search(cut.record(number)))
        reasons |= dict.fromkeys(sound[has_text].tolist(), f"{NULL_TEXT}: {text} is not NULL in CSV; {_EMPTY}")
        return {name: column.filter(pa.array(~has_text)) for name, column in fields.items()}

    def _said(self, fields: dict[str, Any], quoted: NDArray[np.bool_]) -> tuple[dict[str, Any], Any]:
        """Replace the text for missing values by NULL; also returns the fields of each record, None for all.

        Their records are marked in ``quoted``, because the form of the file does not write them.
        """
        if self.dialect.unsaid is None or not len(quoted):
            return fields, None
        lacks = {name: equals(fields[name], self.dialect.unsaid) for name in self.names if name not in UNNAMED}
        some = np.logical_or.reduce([*lacks.values()])
        if not some.any():
            return fields, None
        quoted |= some
        said = fields | {name: pc.if_else(pa.array(~lacks[name]), fields[name], None) for name in lacks}
        known = [[name for name, lack in lacks.items() if not lack[number]] for number in range(len(quoted))]
        return said, pa.array(known, pa.list_(pa.string()))

    def _raw(
        self, cut: RecordSpans, fields: dict[str, Any], found: Scan, quoted: NDArray[np.bool_], *, is_all: bool
    ) -> Any:
        columns = [fields[name] for name in self.names]
        if self.dialect.escape and self.dialect.escape.encode() in cut.data:
            quoted, is_all = np.ones(len(quoted), np.bool_), False
        if self.own and not self.own.names_fields:
            # The ledger stores these two once for the whole file.
            places = [self.names.index(name) for name in UNNAMED]
            self.constants = self.constants or (columns[places[0]][0].as_py(), columns[places[1]][0].as_py())
            for place, value in zip(places, self.constants, strict=True):
                differs = ~equals(columns[place], value)
                columns[place] = pa.repeat(pa.scalar(value, pa.string()), len(quoted))
                quoted, is_all = quoted | differs, is_all and not differs.any()
        self.form, raw = other_lines(cut, columns, self.form, found, quoted, is_all=is_all)
        return raw

    def _kept(  # noqa: PLR0917 - what a block is, as it is found out
        self,
        own: OwnFilter,
        cut: RecordSpans,
        fields: dict[str, Any],
        good: NDArray[np.int64],
        reasons: dict[int, str],
        foreign: NDArray[np.bool_],
    ) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """Keep the table's own records of a transaction file, and mark those of others."""
        ours = own.among(fields, good + self._row, is_last=self.is_last)
        foreign[good[~ours]] = True
        for number in reasons:
            foreign[number] = self._is_foreign(own, cut.record(number).decode(errors="replace"))
        mask = pa.array(ours)
        return {name: column.filter(mask) for name, column in fields.items()}, good[ours]

    def _is_foreign(self, own: OwnFilter, text: str) -> bool:
        """Whether a record that cannot be taken apart says that it belongs to another table."""
        first = None if own.names_fields else self._first_three.match(text)
        if not first:
            return False  # nobody's, so it is shown as ours
        return not own.is_own(first[3] or first[4], first[5] or first[6])


def parse_options(dialect: CsvDialect, invalid_row_handler: Any = None) -> Any:
    """Return PyArrow's options for a dialect."""
    return csv.ParseOptions(
        delimiter=dialect.delimiter,
        escape_char=dialect.escape or False,
        double_quote=dialect.escape is None,
        newlines_in_values=True,
        ignore_empty_lines=True,
        invalid_row_handler=invalid_row_handler,
    )


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _all_but(left_out: Collection[int], count: int) -> NDArray[np.int64]:
    every = np.arange(count, dtype=np.int64)
    return np.delete(every, list(left_out)) if left_out else every


def _quoted(cut: RecordSpans, found: Scan) -> NDArray[np.bool_]:
    """Return a mask of the records with a quote."""
    quoted = np.zeros(len(cut.starts), np.bool_)
    if not found.quotes.size:
        return quoted
    if found.quotes.size < len(quoted):
        quoted[np.searchsorted(cut.starts, found.quotes, side="right") - 1] = True
        return quoted
    before = np.searchsorted(found.quotes, cut.nexts)
    return np.diff(before, prepend=0) > 0


def _stretches(cut: RecordSpans, chosen: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where unbroken rows of some records begin and end, the last line end left out."""
    for row in np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1):
        if len(row):
            yield int(cut.starts[row[0]]), int(cut.stops[row[-1]])


def _runs(cut: RecordSpans, chosen: NDArray[np.bool_]) -> Iterator[bytes]:
    """All bytes of some records, their line ends among them."""
    for row in np.split(np.flatnonzero(chosen), np.flatnonzero(np.diff(np.flatnonzero(chosen)) > 1) + 1):
        if len(row):
            yield cut.data[cut.starts[row[0]] : cut.nexts[row[-1]]]


def _scattered(ends: dict[int, bytes], good: NDArray[np.int64]) -> Any:
    return pa.array([ends.get(number) for number in good.tolist()], pa.binary())


def _one_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
