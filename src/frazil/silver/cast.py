r"""Text to contracted types, exactly or not at all.

Spark's own casts guess: ``now`` becomes the time of day, ``1.005`` becomes 1.01, ``2022`` a January. The casts here
return the exact value of a text, or NULL; the caller then sends the record to quarantine.

Spaces around a value are ignored for all types except string, so that exports padded to a width (``CHAR(10)``) can be
read. All other characters count: a text with a tab, a line end or a NUL is invalid.

=============  ==============================================================================
type           what a text must look like, spaces around it aside
=============  ==============================================================================
boolean        true, false, t, f, 1, 0 in any case
int, bigint    an optional sign and digits, within range
float, double  a decimal or exponent number, NaN, Infinity; refused are an overflow to
               infinity, and an underflow of another number to zero
decimal(p,s)   as double without NaN; more digits than ``s`` after the point are refused
date           yyyy-MM-dd, years 0001 to 9999; a time of 00:00:00 may follow, as Oracle's DATE has it
timestamp      yyyy-MM-dd HH:mm[:ss[.f…]] with blank or T between, an optional zone; no zone means UTC; digits
               beyond microseconds as ``beyond_microseconds`` says
timestamp_ntz  as timestamp, without zone
binary         hexadecimal digits, two a byte; behind \x as PostgreSQL prints them, or without it
string         anything, spaces and all
array, struct  JSON whose values are such texts: see :mod:`frazil.silver.cast_nested`; arrays also as PostgreSQL
               prints them
=============  ==============================================================================
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from frazil.silver.cast_nested import NestedCast
from frazil.spec.model.types import is_nested
from frazil.spec.sql.names import literal

if TYPE_CHECKING:
    from frazil.spec.model.types import BeyondMicroseconds

# Java's "$" also matches before a final line end, so patterns end with "\z".
_NUMBER = literal(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\z")
_ZERO = literal(r"^[+-]?[0.]+([eE][+-]?\d+)?\z")
_INFINITY = literal(r"(?i)^[+-]?(NaN|Infinity|inf)\z")
_DATE = literal(r"^\d{4}-\d{2}-\d{2}([ T]00:00(:00(\.0+)?)?)?\z")
_TIME = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.%s)?)?"
_EXACT_FRACTION, _ANY_FRACTION = r"\d{1,6}0*", r"\d+"
_HALF_OR_MORE = literal(r"\.\d{6}[5-9]")
_LAST_MOMENT = literal("9999-12-31 23:59:59.999999")
_ZONE = r"( ?(Z|UTC|[+-]\d{2}(:?\d{2})?))?\z"
_BEFORE_POINT = literal(r"^[+-]?\d*(?:\.(\d*?)0*)?[eE]")
_EXPONENT = literal(r"[eE]([+-]?\d+)\z")
_BYTES = literal(r"^(\\x)?([0-9A-Fa-f]{2})*\z")
_BEFORE_BYTES = literal(r"^\\x")


def exact(text: str, type_name: str, beyond: BeyondMicroseconds = "truncate") -> str:
    """Write the cast of a text column to a type; NULL if the text is not exactly such a value.

    Args:
        text: SQL that names a string column, repeated in the result; NULL stays NULL.
        type_name: a type of the contract in normal form, such as ``decimal(12,2)``.
        beyond: policy for digits of a timestamp beyond microseconds.

    Returns:
        SQL of a value of that type. A NULL for a text that is not NULL means that the cast failed.

    Cost: no UDF; regular expressions only for types that Spark reads too freely.
    """
    if is_nested(type_name):
        return NestedCast(partial(exact, beyond=beyond)).value(text, type_name)
    kind = type_name.partition("(")[0]
    if kind.startswith("timestamp"):
        return _timestamp(f"trim({text})", type_name, beyond)
    return text if kind == "string" else _CASTS[kind](f"trim({text})", type_name)


def why_not(text: str, type_name: str, beyond: BeyondMicroseconds = "truncate") -> str:
    """Write the part of an invalid text for an error message; for JSON its path and value.

    Args:
        text: SQL that names a string column.
        type_name: a type of the contract in normal form.
        beyond: policy for digits of a timestamp beyond microseconds.

    """
    return NestedCast(partial(exact, beyond=beyond)).problem(text, type_name) if is_nested(type_name) else text


def field_left_out(text: str, type_name: str) -> str:
    """Write the path of a field in a text's objects that a nested type does not name; NULL without any."""
    return NestedCast(exact).left_out(text, type_name)


def _boolean(text: str, _: str) -> str:
    lower = f"lower({text})"
    return f"CASE WHEN {lower} IN ('true', 't', '1') THEN true WHEN {lower} IN ('false', 'f', '0') THEN false END"


def _try(text: str, type_name: str) -> str:
    return f"try_cast({text} AS {type_name})"


def _integer(text: str, type_name: str) -> str:
    return _when(_ends_as_a_number(text), _try(text, type_name))


def _ends_as_a_number(text: str) -> str:
    """Write the condition that a text begins and ends like a number; Spark's casts ignore blanks, NUL and so on."""
    return f"{text} BETWEEN '+' AND ':' AND substring({text}, -1) BETWEEN '.' AND '9'"


def _float(text: str, type_name: str) -> str:
    value = _try(text, type_name)
    finite = (
        f"{text} RLIKE {_NUMBER} AND abs({value}) < CAST('Infinity' AS {type_name}) "
        f"AND ({value} <> 0 OR {text} RLIKE {_ZERO})"
    )
    return _when(f"({finite}) OR {text} RLIKE {_INFINITY}", value)


def _decimal(text: str, type_name: str) -> str:
    scale = int(re.findall(r"\d+", type_name)[1])
    dot, size = f"instr({text}, '.')", f"length({text})"
    # Spark takes digits of any script.
    is_ascii = f"octet_length({text}) = {size}"
    has_exponent = f"(instr({text}, 'e') > 0 OR instr({text}, 'E') > 0)"
    fits = f"({dot} = 0 OR {size} - {dot} <= {scale})"
    plain = f"{fits} AND NOT {has_exponent} AND {is_ascii} AND {_ends_as_a_number(text)}"
    # Rare forms are checked digit by digit: zeros beyond the scale are allowed, an exponent moves the point.
    zeros_beyond = literal(rf"^[+-]?(?=\.?\d)\d*(\.\d{{0,{scale}}}0*)?\z")
    digits = f"length(regexp_extract({text}, {_BEFORE_POINT}, 1))"
    exponent = f"try_cast(regexp_extract({text}, {_EXPONENT}, 1) AS int)"
    with_exponent = f"({text} RLIKE {_NUMBER} AND try_subtract({digits}, {exponent}) <= {scale})"
    return _when(f"({plain}) OR {text} RLIKE {zeros_beyond} OR {with_exponent}", _try(text, type_name))


def _date(text: str, type_name: str) -> str:
    return _when(f"{_is_dated(text)} AND {text} RLIKE {_DATE}", _try(text, type_name))


def _timestamp(text: str, type_name: str, beyond: BeyondMicroseconds) -> str:
    """Write the cast to a timestamp; Spark's own cast truncates digits beyond microseconds."""
    fraction = _ANY_FRACTION if beyond in {"truncate", "round"} else _EXACT_FRACTION
    form = literal(_TIME % fraction + (_ZONE if type_name == "timestamp" else r"\z"))
    value = _try(text, type_name)
    if beyond == "round":
        has_next = f"{value} < CAST({_LAST_MOMENT} AS {type_name})"
        up = f"{text} RLIKE {_HALF_OR_MORE} AND {has_next}"
        value = f"CASE WHEN {up} THEN {value} + INTERVAL '0.000001' SECOND ELSE {value} END"
    return _when(f"{_is_dated(text)} AND {text} RLIKE {form}", value)


def _binary(text: str, _: str) -> str:
    return _when(f"{text} RLIKE {_BYTES}", f"unhex(regexp_replace({text}, {_BEFORE_BYTES}, ''))")


def _is_dated(text: str) -> str:
    return f"{text} >= '0001-01-01'"


def _when(condition: str, value: str) -> str:
    return f"CASE WHEN {condition} THEN {value} END"


_CASTS = {
    "boolean": _boolean,
    "int": _integer,
    "bigint": _integer,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "date": _date,
    "binary": _binary,
}
