"""The beginning of a file of changes, as records of text: enough to guess what a table looks like."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import csv

from frazil.errors import SchemaError
from frazil.formats.csv.lines import Dialect, open_text, records_in
from frazil.formats.parquet_file import opened, parquet_columns
from frazil.formats.parquet_text import as_text

if TYPE_CHECKING:
    from frazil.storage.base import Found

SAMPLE_BYTES: Final = 1_000_000
SAMPLE_RECORDS: Final = 20_000

_DELIMITERS: Final = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class Sample:
    """The first records of a file.

    Attributes:
        load: it is a full load file.
        records: fields as text, None where NULL; of CSV the header too, if there is one.
        columns: (name, type) of a Parquet file's fields; empty for CSV.
        delimiter: the sign between the fields of a CSV file.
    """

    load: bool
    records: tuple[tuple[str | None, ...], ...]
    columns: tuple[tuple[str, str], ...] = ()
    delimiter: str = ","


def sample(file: Found, *, load: bool) -> Sample | None:
    """Read the first megabyte of a CSV file, or the first records of a Parquet file.

    Returns:
        What stands there, without a record that the sample cuts off and without records of other width than
        the first; None if nothing can be read.
    """
    try:
        if file.name.lower().endswith(".parquet"):
            return _parquet(file.uri, load=load)
        return _csv(file.uri, load=load)
    except (OSError, EOFError, zlib.error, UnicodeError, pa.ArrowInvalid, SchemaError):
        return None


def _parquet(uri: str, *, load: bool) -> Sample:
    columns = parquet_columns(uri, uri)
    with opened(uri) as file:
        batches = islice(file.iter_batches(batch_size=SAMPLE_RECORDS), 1)
        records = [
            record
            for batch in batches
            for record in zip(*(as_text(column).to_pylist() for column in batch.columns), strict=True)
        ]
    return Sample(load, tuple(records), columns)


def _csv(uri: str, *, load: bool) -> Sample | None:
    with open_text(uri) as text:
        data = text.read(SAMPLE_BYTES)
    # Line ends and quotes do not depend on the delimiter unless a quote stands inside a field.
    first = next(iter(records_in(data, Dialect())), b"")
    delimiter = _delimiter(first.decode(errors="replace"))
    whole = records_in(data, Dialect(delimiter))
    if len(data) == SAMPLE_BYTES:
        whole.pop()
    if not whole:
        return None
    content = b"\n".join(whole[:SAMPLE_RECORDS]).decode(errors="replace").encode()
    most = first.count(delimiter.encode()) + 1
    table = csv.read_csv(
        pa.BufferReader(content + b"\n"),
        read_options=csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(content) + 2),
        parse_options=csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda _: "skip"
        ),
        convert_options=csv.ConvertOptions(
            column_types={f"f{number}": pa.string() for number in range(most)},
            null_values=["", "NULL"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    records = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return Sample(load, tuple(records), delimiter=delimiter)


def _delimiter(first: str) -> str:
    """Take the comma if the first record has one, else the sign it has most of."""
    return "," if "," in first else max(_DELIMITERS, key=first.count)
