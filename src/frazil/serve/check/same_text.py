"""DuckDB SQL that writes values of the lake as text, in the forms of :mod:`frazil.sources.comparison`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frazil.duck.sql import identifier
from frazil.sources.comparison import BUCKET_DIGITS, SEPARATOR, SUM_DIGITS
from frazil.sources.typed_text import typed_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.sources.comparison import Compared

_MOST_DIGITS: Final = 38


def comparison_form(kind: str) -> str | None:
    """Return the form of a type of the lake; None if DuckDB cannot write it."""
    if kind == f"decimal({_MOST_DIGITS},{_MOST_DIGITS})":
        return None
    return {
        "boolean": "truth",
        "int": "number",
        "bigint": "number",
        "decimal": "number",
        "float": "float",
        "double": "float",
        "date": "date",
        "timestamp": "moment",
        "timestamp_ntz": "moment",
        "binary": "bytes",
        "string": "text",
    }.get(kind.partition("(")[0])


def row_text_sql(columns: Sequence[Compared]) -> str:
    """Return SQL for the text of a row: the texts of its columns, joined by a separator."""
    pieces = f", '{SEPARATOR}', ".join(_piece(column, identifier(column.name)) for column in columns)
    return f"concat({pieces})"


def bucket_of(text: str) -> str:
    """Return SQL for the bucket of a row, given the text of its key."""
    return f"left(md5({text}), {BUCKET_DIGITS})"


def digest_of(text: str) -> str:
    """Return SQL for the hash of a row, given its text."""
    return f"CAST('0x' || left(md5({text}), {SUM_DIGITS}) AS BIGINT)"


def for_people(column: Compared) -> str:
    """Return SQL for a column's value as readable text."""
    name = identifier(column.name)
    return f"CASE WHEN {name} IS NOT NULL THEN concat({name if column.form == 'text' else _piece(column, name)}) END"


def typed_sql(column: Compared, text: str) -> str:
    """Return SQL that casts a text to a column's type; NULL if the text does not fit.

    DuckDB accepts more texts than the lake does, so a quarantined record may still have a key here.
    """
    return typed_text(text, column.type)


def _piece(column: Compared, name: str) -> str:  # noqa: PLR0911 - one return a form
    """Return the arguments of ``concat`` for the text of one column."""
    match column.form:
        case "text":
            return f"length({name}), ':', {name}"
        case "truth":
            return f"CASE WHEN {name} THEN 't' WHEN NOT {name} THEN 'f' END"
        case "number" if scale := _scale(column):
            # DuckDB writes no zero before the point of a decimal whose scale equals its precision.
            wide = f"CAST({name} AS DECIMAL({min(_MOST_DIGITS, _digits(column) + 1)},{scale}))"
            return f"rtrim(rtrim(CAST({wide} AS VARCHAR), '0'), '.')"
        case "float":
            return f"CASE WHEN isnan({name}) THEN 'NaN' ELSE lower(hex(CAST(CAST({name} AS BIT) AS BLOB))) END"
        case "moment" if column.type == "timestamp":
            return f"make_timestamp(epoch_us({name}))"
        case "bytes":
            return f"'x' || lower(hex({name}))"
        case _:
            return name


def _digits(column: Compared) -> int:
    return int(re.findall(r"\d+", column.type)[0])


def _scale(column: Compared) -> int:
    found = re.findall(r"\d+", column.type)
    return int(found[1]) if len(found) > 1 else 0
