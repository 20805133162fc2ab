"""The form of a CSV file's records, from which the same bytes can be reproduced.

Bronze keeps the fields of a record, not its bytes. Most files write all records in one form, which is learned from the
first records and recorded in the ledger. A record in another form keeps its own bytes beside its fields.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


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
