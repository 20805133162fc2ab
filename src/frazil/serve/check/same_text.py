"""The values of the lake as texts in the forms of :mod:`frazil.sources.comparison`, by DuckDB."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frazil.duck.sql import identifier
from frazil.sources.comparison import BUCKET_DIGITS, SEPARATOR, SUM_DIGITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.sources.comparison import Compared

_MOST_DIGITS: Final = 38
_TYPES: Final = {"timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP", "binary": "BLOB", "string": "VARCHAR"}
"""Spark's types that DuckDB calls otherwise."""


def comparison_form(kind: str) -> str | None:
    """Return the form of a type of the lake; None where DuckDB cannot write it."""
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
    """Write the text of a row: that of each of some columns."""
    pieces = f", '{SEPARATOR}', ".join(_piece(column, identifier(column.name)) for column in columns)
    return f"concat({pieces})"


def bucket_of(text: str) -> str:
    """Write the bucket of a row, given the text of its key."""
    return f"left(md5({text}), {BUCKET_DIGITS})"


def digest_of(text: str) -> str:
    """Write the hash of a row, given its text."""
    return f"CAST('0x' || left(md5({text}), {SUM_DIGITS}) AS BIGINT)"


def for_people(column: Compared) -> str:
    """Write the value of a column as a text that people read."""
    name = identifier(column.name)
    return f"CASE WHEN {name} IS NOT NULL THEN concat({name if column.form == 'text' else _piece(column, name)}) END"


def typed_sql(column: Compared, text: str) -> str:
    """Write a text as a value of a column's type; NULL where it is none, as :mod:`frazil.silver.cast` sees it.

    DuckDB reads more freely than the lake does, so a key may be found for a record that went to quarantine.
    """
    if column.form == "text":
        return text
    if column.form == "bytes":
        digits = f"regexp_replace({text}, '^\\\\x', '')"
        return f"CASE WHEN regexp_full_match({digits}, '([0-9A-Fa-f]{{2}})*') THEN unhex({digits}) END"
    kind = _TYPES.get(column.type, column.type)
    value = f"TRY_CAST(trim({text}) AS {kind})"
    if scale := _scale(column):
        # DuckDB would round.
        return f"CASE WHEN length(rtrim(split_part(trim({text}), '.', 2), '0')) <= {scale} THEN {value} END"
    return value


def _piece(column: Compared, name: str) -> str:  # noqa: PLR0911 - one return a form
    """Write the arguments of ``concat`` that make the text of one column."""
    match column.form:
        case "text":
            return f"length({name}), ':', {name}"
        case "truth":
            return f"CASE WHEN {name} THEN 't' WHEN NOT {name} THEN 'f' END"
        case "number" if scale := _scale(column):
            # Of a decimal with as many digits as decimals DuckDB writes no zero before the point.
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
