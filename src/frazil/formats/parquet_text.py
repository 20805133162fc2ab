"""Write Arrow values as canonical text: different values have different texts; and the hash of the texts of a file.

=====================  =================================================================================
Arrow type             text
=====================  =================================================================================
boolean                ``true``, ``false``
integers, durations    digits; a duration as the number that is stored, in the unit of its type
floats                 the shortest decimal number that reads back as the value; ``nan``, ``inf``, ``-0``
decimals               all digits of the scale, no exponent
dates                  ``yyyy-MM-dd``, years of more digits and before 1 too
timestamps             ``yyyy-MM-dd HH:mm:ss.ffffff`` in UTC; nine digits where there are nanoseconds
times of day           ``HH:mm:ss`` with the digits of the unit
binary                 hexadecimal digits in lower case
nested                 JSON; numbers and booleans as such, maps as lists of pairs, all else as its text
dictionary, extension  as the type they are stored in
=====================  =================================================================================
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.csv_form import offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCIENTIFIC: Final = "[eE]"
_NANOSECOND_ZEROS: Final = r"(\.\d{6})000$"
_OUT_OF_RANGE: Final = "<"
"""Prefix of Arrow's text for a date or time out of its range."""

_FRACTIONS: Final = {"s": ".000000", "ms": "000", "us": "", "ns": ""}
_UINT64_DIGITS: Final = 20
_DECIMAL_DIGITS: Final = 38


def spark_type_of_arrow(kind: Any) -> str:  # noqa: C901, PLR0911 - a table of types reads best as one
    """Name the Spark type of an Arrow type; ``string`` where Spark has none, for times of day and nested values."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return spark_type_of_arrow(kind.storage_type)
    if types.is_dictionary(kind):
        return spark_type_of_arrow(kind.value_type)
    if types.is_boolean(kind):
        return "boolean"
    if types.is_uint64(kind):
        return f"decimal({_UINT64_DIGITS},0)"
    if types.is_integer(kind):
        return "bigint" if types.is_int64(kind) or types.is_uint32(kind) else "int"
    if types.is_duration(kind):
        return "bigint"
    if types.is_floating(kind):
        return "double" if types.is_float64(kind) else "float"
    if types.is_decimal(kind):
        fits = 0 <= kind.scale <= kind.precision <= _DECIMAL_DIGITS
        return f"decimal({kind.precision},{kind.scale})" if fits else "string"
    if types.is_date(kind):
        return "date"
    if types.is_timestamp(kind):
        return "timestamp"
    return "binary" if _is_binary(kind) else "string"


def as_text(column: Any) -> Any:  # noqa: PLR0911 - as above
    """Write the values of an Arrow array as text; NULL stays NULL.

    Raises:
        pyarrow.ArrowException: a type, or a value of it, that has no text.
    """
    types, kind = pa.types, column.type
    if isinstance(kind, pa.BaseExtensionType):
        return as_text(column.storage)
    if types.is_dictionary(kind):
        return as_text(column.dictionary_decode())
    if types.is_nested(kind):
        return pa.array(_json_texts(column), pa.string())
    if _is_binary(kind):
        return _each(column, bytes.hex)
    if types.is_decimal(kind):
        text = column.cast(pa.string())
        has_exponent = pc.any(pc.match_substring_regex(text, _SCIENTIFIC)).as_py()
        return _each(column, lambda value: format(value, "f")) if has_exponent else text
    if types.is_timestamp(kind):
        return _timestamps(column)
    if types.is_date(kind):
        days = column.cast(pa.date32())
        return _widened(days.cast(pa.string()), days.cast(pa.int32()).cast(pa.int64()), "D")
    if types.is_duration(kind):
        return column.cast(pa.int64()).cast(pa.string())
    if types.is_float16(kind):
        column = column.cast(pa.float32())
    return column.cast(pa.string())


def int96_text(micros: Any, nanos: Any) -> Any:
    """Write timestamps that are stored in 96 bits, which no Arrow type has room for.

    Args:
        micros: the values as microseconds, rounded down.
        nanos: the same values as nanoseconds, wrapped around where 64 bits are too few.
    """
    known = micros.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        rest = nanos.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False) - known * 1000
    text = as_text(micros)
    finer = pa.array((rest != 0) & micros.is_valid().to_numpy(zero_copy_only=False))
    if not pc.any(finer).as_py():
        return text
    digits = pa.array([f"{value:03d}" for value in rest[finer.to_numpy(zero_copy_only=False)].tolist()])
    return pc.replace_with_mask(text, finer, pc.binary_join_element_wise(text.filter(finer), digits, ""))


def _is_binary(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _timestamps(column: Any) -> Any:
    unit = column.type.unit
    numbers = column.cast(pa.int64())
    text = _widened(numbers.cast(pa.timestamp(unit)).cast(pa.string()), numbers, unit)
    if _FRACTIONS[unit]:
        text = pc.binary_join_element_wise(text, _FRACTIONS[unit], "")
    return pc.replace_substring_regex(text, _NANOSECOND_ZEROS, r"\1") if unit == "ns" else text


def _widened(text: Any, numbers: Any, unit: str) -> Any:
    """Return texts for the dates and timestamps that Arrow finds too far away."""
    far = pc.fill_null(pc.starts_with(text, _OUT_OF_RANGE), fill_value=False)
    if not pc.any(far).as_py():
        return text
    moments = numbers.filter(far).to_numpy(zero_copy_only=False).astype(f"M8[{unit}]")
    wide = np.char.replace(np.datetime_as_string(moments), "T", " ")
    return pc.replace_with_mask(text, far, pa.array(wide.tolist(), pa.string()))


def _each(column: Any, write: Any) -> Any:
    return pa.array([None if value is None else write(value) for value in column.to_pylist()], pa.string())


def _json_texts(column: Any) -> list[str | None]:  # noqa: PLR0911 - a kind of type, a line
    """Write each value as JSON; None for NULL."""
    types, kind = pa.types, column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _json_texts(column.storage)
    if types.is_dictionary(kind):
        return _json_texts(column.dictionary_decode())
    if types.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        pairs = column.cast(pa.list_(pair))
        return _lists(pairs, [f"[{', '.join(both)}]" for both in _fields(pairs.flatten())])
    if types.is_struct(kind):
        names = [json.dumps(field.name, ensure_ascii=False) for field in kind]
        rows = zip(column.is_valid().to_pylist(), _fields(column), strict=True)
        return [
            f"{{{', '.join(f'{name}: {text}' for name, text in zip(names, texts, strict=True))}}}" if valid else None
            for valid, texts in rows
        ]
    if types.is_nested(kind):
        return _lists(column, [text or "null" for text in _json_texts(column.flatten())])
    texts = as_text(column).to_pylist()
    if types.is_boolean(kind) or types.is_integer(kind):
        return list(texts)
    if types.is_floating(kind):
        return [text if text is None or text[-1].isdigit() else json.dumps(text) for text in texts]
    return [None if text is None else json.dumps(text, ensure_ascii=False) for text in texts]


def _fields(structs: Any) -> list[tuple[str, ...]]:
    """Write the fields of each struct as JSON."""
    columns = [[text or "null" for text in _json_texts(child)] for child in structs.flatten()]
    return list(zip(*columns, strict=True))


def _lists(column: Any, items: list[str]) -> list[str | None]:
    """Write each list, given the items of all of them."""
    written: list[str | None] = []
    at = 0
    for size in pc.list_value_length(column).to_pylist():
        written.append(None if size is None else f"[{', '.join(items[at : at + size])}]")
        at += size or 0
    return written


class ValuesHash:
    """SHA-256 over the texts of a file's records, column by column, and over the bytes of its bad records.

    However records are given in pieces, the hash is the same. NULL and the empty text differ.

    Args:
        columns: how many columns the records have.
    """

    def __init__(self, columns: int) -> None:
        self._sizes = [hashlib.sha256() for _ in range(columns)]
        self._texts = [hashlib.sha256() for _ in range(columns)]
        self._rows, self._bad = hashlib.sha256(), hashlib.sha256()

    def add(self, rows: Any, columns: Sequence[Any]) -> None:
        """Add records, in the order of the file.

        Args:
            rows: their ordinals (int64).
            columns: their texts, always in the same order.

        Cost: the hash of the bytes, and no work a value.
        """
        self._rows.update(np.ascontiguousarray(rows.to_numpy(zero_copy_only=False), "<i8").data)
        for column, sizes_hash, texts_hash in zip(columns, self._sizes, self._texts, strict=True):
            texts = column.cast(pa.string())
            filled = texts.fill_null("") if texts.null_count else texts
            offsets = offsets_of(filled)
            sizes = np.diff(offsets).astype("<i4")
            if texts.null_count:
                sizes[texts.is_null().to_numpy(zero_copy_only=False)] = -1
            sizes_hash.update(sizes.data)
            if offsets[-1] > offsets[0]:
                texts_hash.update(memoryview(filled.buffers()[2])[int(offsets[0]) : int(offsets[-1])])

    def add_bad(self, row: int, raw: bytes | None) -> None:
        """Add a bad record, in the order of the file."""
        size = -1 if raw is None else len(raw)
        self._bad.update(b"%d %d " % (row, size) + (raw or b""))

    def hexdigest(self) -> str:
        """Hash of all that was added, in hex."""
        parts = (self._rows, *self._sizes, *self._texts, self._bad)
        return hashlib.sha256(b"".join(part.digest() for part in parts)).hexdigest()
