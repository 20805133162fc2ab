"""Read a CSV file from end to end: its records, and what its ledger line has to say of its bytes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv

from frazil.bronze.csv_kept import Cut
from frazil.bronze.csv_lines import (
    BLOCK_BYTES,
    LINE_ENDS,
    RECORD_BYTES,
    UNREADABLE,
    Block,
    blocks,
    dialect_of,
    is_gzip,
    open_behind_mark,
    open_text,
)
from frazil.bronze.csv_reader import BlockReader, parse_options
from frazil.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.bronze.csv_form import Form
    from frazil.bronze.layout import Layout, NewFile
    from frazil.bronze.parsed import Parsed


class DuplicateFieldsError(SchemaError):
    """A file names two fields alike."""

    code = "FZ501"

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self.path, self.names = path, tuple(names)
        super().__init__(
            f"{path}: {', '.join(map(repr, self.names))} name more than one field, without regard to case",
            hint="rename or remove the field at the source and write the file again, under another name",
        )


def header_of(record: bytes, delimiter: str, escape: str | None) -> list[str]:
    """Take the header record apart; a field left empty has the empty name.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    record.decode()
    most = record.count(delimiter.encode()) + 1
    table = csv.read_csv(
        pa.BufferReader(record + b"\n"),
        read_options=csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(record) + 2),
        parse_options=parse_options(delimiter, escape),
        convert_options=csv.ConvertOptions(column_types={f"f{n}": pa.string() for n in range(most)}),
    )
    return [column[0].as_py() for column in table.columns]


def check_names(path: str, names: Sequence[str]) -> None:
    """Refuse two fields of one name.

    Raises:
        DuplicateFieldsError: two names are equal without regard to case.
    """
    lower = [name.lower() for name in names]
    if twice := [name for name in names if lower.count(name.lower()) > 1]:
        raise DuplicateFieldsError(path, twice)


class CsvRecords:
    """The records of a CSV file, and what its ledger line has to say so that its bytes can be written again.

    Args:
        file: a sound file: ``broken`` is None.
        layout: how its fields map to columns.
        block_bytes: how much is read at a time.
        record_bytes: records of more bytes are bad, as ``field_too_large``.

    Attributes:
        head: all that stands before the first record, once all is read.
    """

    def __init__(
        self, file: NewFile, layout: Layout, *, block_bytes: int = BLOCK_BYTES, record_bytes: int = RECORD_BYTES
    ) -> None:
        self.head = b""
        self._file, self._dialect = file, dialect_of(layout)
        self._block_bytes, self._record_bytes = block_bytes, record_bytes
        self._header_due = layout.has_header(file)
        names = layout.fields_of(file)
        has_op = file.load or not self._header_due or layout.op in names
        self._reader = BlockReader(layout, names, record_bytes, shared=file.shared, has_op=has_op)
        self._hash = hashlib.sha256() if file.shared or is_gzip(file.name) else None

    @property
    def names(self) -> tuple[str, ...]:
        """Bronze columns that the fields of its records go to, in file order."""
        return self._reader.names

    @property
    def form(self) -> Form:
        """How the records are written."""
        return self._reader.form

    @property
    def constants(self) -> tuple[str | None, str | None]:
        """Table and schema, as a transaction file names them."""
        return self._reader.constants or (None, None)

    @property
    def content_sha256(self) -> str | None:
        """Hash of the text without the records of other tables; None where that is the file as it is stored."""
        return self._hash.hexdigest() if self._hash else None

    def __iter__(self) -> Iterator[Parsed]:
        """Read all records in the order of the file, its header left out; once only.

        Raises:
            OSError, EOFError, zlib.error: the file cannot be read any more.
        """
        text, mark = open_behind_mark(self._file.uri)
        self._add_to_head(mark)
        is_blank = True
        with text:
            for found in blocks(text, self._dialect, block_bytes=self._block_bytes, record_bytes=self._record_bytes):
                block = self._behind_head(found) if is_blank or self._header_due else found
                is_blank = False
                if block.data:
                    parsed, own = self._reader.parse(block)
                    if self._hash:
                        for piece in own:
                            self._hash.update(piece)
                    yield parsed
        if is_blank:
            with open_text(self._file.uri) as text:
                self._add_to_head(text.read())

    def _add_to_head(self, data: bytes) -> None:
        self.head += data
        if self._hash:
            self._hash.update(data)

    def _behind_head(self, block: Block) -> Block:
        """Take what stands before the first record from the first blocks: line ends, and the header."""
        if block.found is None:
            return block
        data, size = block.data, len(block.data)
        start = size - len(data.lstrip(LINE_ENDS))
        if self._header_due and start < size:
            start += int(Cut.of(data[start:], block.found.between(start, size)).nexts[0])
            self._header_due = False
        self._add_to_head(data[:start])
        return Block(data[start:], block.found.between(start, size))


def unreadable() -> tuple[type[Exception], ...]:
    """What reading raises for a file that changed or broke after it was listed."""
    return (OSError, UnicodeError, *UNREADABLE)
