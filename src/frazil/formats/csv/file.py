"""Read a CSV file from end to end: its records, and how its bytes follow from them."""

from __future__ import annotations

import hashlib
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv

from frazil.formats.csv.kept import RecordSpans
from frazil.formats.csv.lines import (
    BLOCK_BYTES,
    LINE_ENDS,
    RECORD_BYTES,
    Block,
    blocks,
    is_gzip,
    open_behind_mark,
    open_text,
)
from frazil.formats.csv.reader import BlockReader, parse_options
from frazil.formats.recoded import UTF_8
from frazil.formats.records import CSV

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.formats.csv.lines import CsvDialect
    from frazil.formats.own_records import OwnFilter
    from frazil.formats.records import Parsed


def header_of(record: bytes, dialect: CsvDialect) -> list[str]:
    """Return the names in a header record; a field left empty has the empty name.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    record.decode()
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
