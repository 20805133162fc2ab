"""The form of a CSV file's records, which gives back the same bytes, and the bytes that do not follow from it.

Bronze keeps the fields of a record, not its bytes. Most files write all records in one form, which is learned from the
first records and recorded in the ledger. A record in another form keeps its own bytes beside its fields.

Records without quotes are checked by counting bytes: a record is its values and delimiters, so all other bytes are
those of NULL. Only records with quotes are written and compared.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from frazil.formats.csv_lines import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvForm:
    """The form in which a file's records are written.

    A field has quotes if it is empty, equals the text of NULL, or contains a delimiter, a quote or a line end. Other
    fields are bare, except in columns that are always quoted. A quote inside quotes is doubled. With an escape
    character, quotes and escape characters are escaped instead.

    Attributes:
        delimiter: separator of fields.
        escape: the escape character; None if quotes are doubled.
        null_value: an unquoted text that means NULL, like an empty unquoted field.
        null_text: how the file writes NULL: ``null_value`` or empty; None until a NULL was seen.
        line_end: separator of records; None until a record was seen.
        quoted: for each column in file order, whether all values are quoted; None until a record was seen.
    """

    delimiter: str
    escape: str | None
    null_value: str
    null_text: str | None = None
    line_end: bytes | None = None
    quoted: tuple[bool, ...] | None = None

    @property
    def signs(self) -> bytes:
        """The bytes that a field cannot have without quotes."""
        return b'"\n\r' + self.delimiter.encode()

    @property
    def written_fields(self) -> re.Pattern[bytes]:
        """A pattern that finds the fields of a record as they are written."""
        delimiter = re.escape(self.delimiter.encode())
        escaped = re.escape(self.escape.encode()) if self.escape else b'"'
        pair, others = (escaped + b".", escaped) if self.escape else (b'""', b"")
        inside = b"(?:" + pair + b'|[^"' + others + b"])*"
        return re.compile(b'("' + inside + b'"|[^' + delimiter + b"]*)(?:" + delimiter + b"|\\Z)", re.DOTALL)

    def needs_quotes(self, text: str) -> bool:
        """Whether a text can only be written in quotes."""
        return text in ("", self.null_value) or any(sign in text.encode() for sign in self.signs)

    def lines(self, columns: Sequence[Any], end: str = "") -> Any:
        """Write records, each followed by ``end``.

        Args:
            columns: text columns of one length in file order.
            end: line end to write after every record.

        Returns:
            An Arrow array of binary values.
        """
        quoted = self.quoted or (False,) * len(columns)
        fields = [self._fields(column, always=always) for column, always in zip(columns, quoted, strict=True)]
        if end:
            fields[-1] = pc.binary_join_element_wise(fields[-1], end, "")
        return pc.binary_join_element_wise(*fields, self.delimiter).cast(pa.binary())

    def _fields(self, column: Any, *, always: bool) -> Any:
        in_quotes = np.ones(len(column), np.bool_) if always else self._needing(column)
        in_quotes &= column.is_valid().to_numpy(zero_copy_only=False)
        if self.escape:
            column = pc.replace_substring(column, self.escape, self.escape * 2)
        if in_quotes.any():
            mask = pa.array(in_quotes)
            inner = pc.replace_substring(column.filter(mask), '"', (self.escape or '"') + '"')
            column = pc.replace_with_mask(column, mask, pc.binary_join_element_wise('"', inner, '"', ""))
        return column.fill_null(self.null_text or "")

    def _needing(self, column: Any) -> NDArray[np.bool_]:
        """Return a mask of the values that need quotes."""
        offsets = offsets_of(column)
        needing: NDArray[np.bool_] = np.diff(offsets) == 0
        if self.null_value:
            needing |= pc.equal(column, self.null_value).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
        if column.buffers()[2] is None:
            return needing
        # One search over the text of the whole column: most columns have none of these bytes.
        text = column.buffers()[2].to_pybytes()[offsets[0] : offsets[-1]]
        for sign in self.signs:
            if sign in text:
                at = np.flatnonzero(np.frombuffer(text, np.uint8) == sign) + offsets[0]
                needing[np.searchsorted(offsets, at, side="right") - 1] = True
        return needing


def offsets_of(column: Any) -> NDArray[np.int32]:
    """Where the values of an Arrow text column begin and end in its text, one more than there are values."""
    offsets = np.frombuffer(column.buffers()[1], np.int32) if len(column) else np.zeros(1, np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]


def learned(form: CsvForm, records: Iterable[bytes], values: Iterable[Sequence[str | None]]) -> CsvForm:
    """Learn from some records how a file writes columns and NULL, unless it is known.

    Args:
        form: the known form.
        records: bytes of parseable records.
        values: the fields of these records.
    """
    written = form.written_fields
    nulls: Counter[bytes] = Counter()
    votes: list[Counter[bool]] = []
    for record, fields in zip(records, values, strict=True):
        votes = votes or [Counter() for _ in fields]
        # If the last field is not empty, the pattern also finds an empty one after it.
        for part, field, vote in zip(written.findall(record), fields, votes, strict=False):
            if field is None:
                nulls[part] += 1
            elif not form.needs_quotes(field):
                vote[part.startswith(b'"')] += 1
    if form.quoted is None:
        form = replace(form, quoted=tuple(vote[True] > vote[False] for vote in votes))
    if form.null_text is None and nulls:
        word = form.null_value.encode()
        form = replace(form, null_text=form.null_value if nulls[word] >= nulls[b""] else "")
    return form


_SAMPLE_RECORDS: Final = 100
"""Number of records from which the form of the columns is learned."""

_LONG_END: Final = 8
"""The usual line end of a file is shorter than this, even with blank lines between records."""


class RecordSpans(NamedTuple):
    """Offsets of records in a piece of text: start, stop without line end, and start of the next record."""

    data: bytes
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    nexts: NDArray[np.int64]

    @classmethod
    def of(cls, data: bytes, found: Scan) -> RecordSpans:
        """Cut a text that begins with a record, and where each record is followed by its line ends."""
        stops = found.ends
        if not stops.size or stops[-1] != len(data) - 1:
            stops = np.append(stops, len(data))
        starts = np.empty_like(stops)
        starts[0] = 0
        starts[1:] = stops[:-1] + 1
        filled = stops > starts
        if not filled.all():
            starts, stops = starts[filled], stops[filled]
        return cls(data, starts, stops, np.append(starts[1:], len(data)))

    def chosen(self, which: NDArray[Any]) -> RecordSpans:
        """Keep some of the records, by their numbers or as a mask."""
        return self._replace(starts=self.starts[which], stops=self.stops[which], nexts=self.nexts[which])

    def record(self, number: int) -> bytes:
        """Return the bytes of a record without its line end, by its number from 0."""
        return self.data[self.starts[number] : self.stops[number]]

    def end(self, number: int) -> bytes:
        """Return the bytes between a record and the next one."""
        return self.data[self.stops[number] : self.nexts[number]]

    def records(self) -> Any:
        """All records without their line ends, as an Arrow array of binary values."""
        offsets = np.stack([self.starts, self.stops], 1).astype(np.int32).ravel()
        pieces = pa.Array.from_buffers(
            pa.binary(), max(len(offsets) - 1, 0), [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        )
        return pieces.take(pa.array(np.arange(0, len(pieces), 2)))

    def usual_end(self) -> bytes:
        """Return the line end of most records."""
        sizes = self.nexts - self.stops
        size = int(np.bincount(sizes[sizes < _LONG_END], minlength=1).argmax())
        return self.end(int(np.argmin(np.abs(sizes - size))))[:size]

    def other_ends(self, usual: bytes) -> NDArray[np.int64]:
        """Return a mask of the records with another line end than the usual one."""
        other = self.nexts - self.stops != len(usual)
        text = np.frombuffer(self.data, np.uint8)
        for at, sign in enumerate(usual):
            other |= text[np.minimum(self.stops + at, len(text) - 1)] != sign
        return np.flatnonzero(other)


def other_lines(
    cut: RecordSpans, columns: Sequence[Any], form: CsvForm, found: Scan, quoted: NDArray[np.bool_], *, is_all: bool
) -> tuple[CsvForm, Any]:
    """Find the records that the file's form does not write as they are.

    Args:
        cut: n records.
        columns: their n values in file order, as text.
        form: the known form; its ``line_end`` is not used.
        found: positions of the quotes in the text.
        quoted: n flags: whether a record has a quote, or must be compared for another reason. Modified in place.
        is_all: the text has no other records, and only records with quotes must be compared.

    Returns:
        The form, extended by what was learned; and the n records as binary values, NULL if the form writes them, or
        None if it writes all of them.

    Cost: some numbers a column, and writing the records with quotes once.
    """
    if form.quoted is None:
        form = _learned(cut, columns, form, np.arange(len(quoted) if quoted.any() else 0))
    written_quotes = 0
    nulls = sum(column.null_count for column in columns)
    values = len(cut.starts) * len(columns) - nulls
    if form.quoted and any(form.quoted):
        quoted[:] = True
        # All quotes are around or inside values, with two for each value: so each value is quoted.
        is_sound = is_all and found.doubled is not None and all(form.quoted)
        if is_sound and found.quotes.size == 2 * (found.doubled or 0) + 2 * values:
            quoted[:] = False
            written_quotes = found.quotes.size - (found.doubled or 0)
    some = np.flatnonzero(quoted)
    taken = [column.take(pa.array(some)) for column in columns]
    plain_nulls = nulls - sum(column.null_count for column in taken)
    if nulls and form.null_text is None:
        form = _null_learned(cut, columns, form, quoted, written_quotes=written_quotes, plain_nulls=plain_nulls)
    if _left_over(cut, columns, taken, quoted) - written_quotes != plain_nulls * len((form.null_text or "").encode()):
        some, taken = np.arange(len(quoted)), list(columns)
    if not some.size:
        return form, None
    as_they_are = cut.chosen(some).records()
    is_same = pc.equal(as_they_are, form.lines(taken))
    if pc.all(is_same).as_py():
        return form, None
    other = np.zeros(len(quoted), np.bool_)
    other[some] = ~is_same.to_numpy(zero_copy_only=False)
    kept = as_they_are.filter(pc.invert(is_same))
    return form, pc.replace_with_mask(pa.nulls(len(quoted), pa.binary()), pa.array(other), kept)


def _left_over(cut: RecordSpans, columns: Sequence[Any], taken: Sequence[Any], quoted: NDArray[np.bool_]) -> int:
    """Count the bytes of the records that are not compared, without their values and delimiters."""
    plain = ~quoted
    size = int((cut.stops - cut.starts)[plain].sum()) - int(plain.sum()) * (len(columns) - 1)
    return size - sum(map(_text_bytes, columns)) + sum(map(_text_bytes, taken))


def _text_bytes(column: Any) -> int:
    offsets = offsets_of(column)
    return int(offsets[-1] - offsets[0])


def _learned(cut: RecordSpans, columns: Sequence[Any], form: CsvForm, some: NDArray[np.int64]) -> CsvForm:
    """See how columns are quoted; where no record has a quote, none is."""
    if not some.size:
        return replace(form, quoted=(False,) * len(columns))
    some = some[:_SAMPLE_RECORDS]
    values = zip(*(column.take(pa.array(some)).to_pylist() for column in columns), strict=True)
    return learned(form, map(cut.record, some.tolist()), values)


def _null_learned(
    cut: RecordSpans,
    columns: Sequence[Any],
    form: CsvForm,
    quoted: NDArray[np.bool_],
    *,
    written_quotes: int,
    plain_nulls: int,
) -> CsvForm:
    """Learn how NULL is written: from the number of remaining bytes, or from records with NULL."""
    word = form.null_value
    if plain_nulls:
        taken = [column.filter(pa.array(quoted)) for column in columns]
        words = _left_over(cut, columns, taken, quoted) - written_quotes
        return replace(form, null_text=word if 2 * words >= plain_nulls * len(word.encode()) else "")
    has_null = np.logical_or.reduce([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
    found = _learned(cut, columns, form, np.flatnonzero(has_null))
    return found if found.null_text is not None else replace(found, null_text=word)
