"""Read Parquet files as canonical text, so that every source looks the same in bronze."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.bronze.csv_records import NO_OP_COLUMN, Bad, Parsed, check_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from frazil.bronze.layout import Layout, NewFile

BATCH_ROWS: Final = 32_768

_SCIENTIFIC: Final = "[eE]"
_NANOSECOND_ZEROS: Final = r"(\.\d{6})000$"
_UINT64_DIGITS: Final = 20


def parquet_columns(path: str, uri: str) -> tuple[tuple[str, str], ...]:
    """Read the names and Spark types of a file's fields from its footer.

    Raises:
        pyarrow.ArrowInvalid, OSError: there is no footer, or not a sound one.
        DuplicateFieldsError: two names are equal without regard to case.
    """
    with closing(pq.ParquetFile(uri)) as parquet:
        fields = parquet.schema_arrow
    check_names(path, fields.names)
    return tuple((field.name, spark_type(field.type)) for field in fields)


def spark_type(kind: Any) -> str:  # noqa: PLR0911 - a table of types reads best as one
    """Name the Spark type of an Arrow type; ``string`` for times of day and nested values."""
    types = pa.types
    if types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if types.is_boolean(kind):
        return "boolean"
    if types.is_uint64(kind):
        return f"decimal({_UINT64_DIGITS},0)"
    if types.is_integer(kind):
        return "bigint" if types.is_int64(kind) or types.is_uint32(kind) else "int"
    if types.is_floating(kind):
        return "double" if types.is_float64(kind) else "float"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_date(kind):
        return "date"
    if types.is_timestamp(kind):
        return "timestamp"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    return "string"


def parquet_records(file: NewFile, layout: Layout, *, batch_rows: int = BATCH_ROWS) -> Iterator[Parsed]:
    """Read a Parquet file, some records at a time.

    Values become text: timestamps ``YYYY-MM-DD HH:MM:SS.ffffff`` in UTC (nine digits where there are
    nanoseconds), dates ``YYYY-MM-DD``, decimals without exponent, floats the shortest text that reads back as
    they are, ``true`` and ``false``, binary in lower-case hex, nested values as JSON. NULL stays NULL.

    Yields:
        All records in order. From where the file cannot be decoded on, they are bad, without their bytes.
    """
    names = layout.fields_of(file)
    no_op = not file.load and layout.op not in names
    with closing(pq.ParquetFile(file.uri)) as parquet:
        row, count = 1, parquet.metadata.num_rows
        batches = parquet.iter_batches(batch_size=batch_rows, use_threads=False)
        while row <= count:
            try:
                batch = next(batches)
            except (OSError, pa.ArrowException, StopIteration) as error:
                reason = f"unreadable: {first_line(error)}"
                yield Parsed(bad=[Bad(number, reason) for number in range(row, count + 1)])
                return
            yield _no_op(batch, row) if no_op else _parsed(batch, names, row)
            row += batch.num_rows


def first_line(error: Exception) -> str:
    """The first line of a message of Arrow, which may go on with a trace."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _no_op(batch: Any, row: int) -> Parsed:
    found = enumerate(batch.to_pylist(), row)
    return Parsed(bad=[Bad(number, NO_OP_COLUMN, _json(values)) for number, values in found])


def _parsed(batch: Any, names: tuple[str, ...], row: int) -> Parsed:
    rows = np.arange(row, row + batch.num_rows, dtype=np.int64)
    columns: dict[str, Any] = {}
    bad: dict[int, Bad] = {}
    for name, column in zip(names, batch.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)  # noqa: PLW2901
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            invalid = _invalid_text(column)
            reason = f"encoding: invalid UTF-8 in {name}"
            bad |= {at: Bad(int(rows[at]), reason, raw) for at, raw in invalid.items()}
            if invalid:
                column = pc.if_else(pa.array(_all_but(invalid, len(column))), column, None)  # noqa: PLW2901
        columns[name] = as_text(column)
    if not bad:
        return Parsed(columns, pa.array(rows))
    sound = _all_but(bad, len(rows))
    kept = {name: column.filter(pa.array(sound)) for name, column in columns.items()}
    return Parsed(kept, pa.array(rows[sound]), [bad[at] for at in sorted(bad)])


def _all_but(left_out: Collection[int], count: int) -> NDArray[np.bool_]:
    return ~np.isin(np.arange(count), list(left_out))


def _invalid_text(column: Any) -> dict[int, bytes]:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.cast(pa.large_binary()).to_pylist()
        return {at: value for at, value in enumerate(raw) if value is not None and not _is_utf8(value)}
    return {}


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_text(column: Any) -> Any:
    """Write the values of an Arrow array as canonical text; NULL stays NULL."""
    types, kind = pa.types, column.type
    if types.is_nested(kind):
        return _each(column, lambda value: _json(value).decode())
    if spark_type(kind) == "binary":
        return _each(column, bytes.hex)
    if types.is_decimal(kind):
        text = column.cast(pa.string())
        has_exponent = pc.any(pc.match_substring_regex(text, _SCIENTIFIC)).as_py()
        return _each(column, lambda value: format(value, "f")) if has_exponent else text
    if types.is_timestamp(kind):
        return _timestamps(column)
    if types.is_float16(kind):
        column = column.cast(pa.float32())
    return column.cast(pa.string())


def _timestamps(column: Any) -> Any:
    kind = column.type
    unit = "ns" if kind.unit == "ns" else "us"
    if kind.tz:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    text = column.cast(pa.timestamp(unit)).cast(pa.string())
    return pc.replace_substring_regex(text, _NANOSECOND_ZEROS, r"\1") if unit == "ns" else text


def _each(column: Any, write: Any) -> Any:
    return pa.array([None if value is None else write(value) for value in column.to_pylist()], pa.string())


def _json(value: Any) -> bytes:
    def plain(other: Any) -> str:
        return other.hex() if isinstance(other, bytes) else str(other)

    return json.dumps(value, default=plain, ensure_ascii=False).encode()
