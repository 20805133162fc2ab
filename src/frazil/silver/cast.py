r"""Text to contracted types, exactly or not at all.

Spark's own casts guess: ``now`` becomes the time of day, ``1.005`` becomes 1.01, ``2022`` a January. Here
a text is the value it says or it is no value, and the caller sends the record to quarantine.

=============  ==============================================================================
type           what a text must look like (blanks around numbers do not matter)
=============  ==============================================================================
boolean        true, false, t, f, 1, 0 in any case
int, bigint    an optional sign and digits, within range
float, double  a decimal or exponent number, NaN, Infinity; an overflow to infinity is refused
decimal(p,s)   as double without NaN; more digits than ``s`` after the point are refused
date           yyyy-MM-dd, years 0001 to 9999
timestamp      yyyy-MM-dd HH:mm[:ss[.ffffff]] with blank or T between, an optional zone; no zone means UTC
timestamp_ntz  as timestamp, without zone
binary         hexadecimal digits, two a byte
string         anything
=============  ==============================================================================
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

# Java's "$" also stands before a last line end, so patterns end with "\z".
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*\z"
_INFINITY = r"^\s*[+-]?(NaN|Infinity|inf)\s*\z"
_DATE = r"^\d{4}-\d{2}-\d{2}\z"
_TIME = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6}0*)?)?"
_ZONE = r"( ?(Z|UTC|[+-]\d{2}(:?\d{2})?))?\z"


def exact(text: Column, type_name: str) -> Column:
    """Cast a text column to a type, NULL where the text is not exactly such a value.

    Args:
        text: a string column; NULL stays NULL.
        type_name: a type of the contract in normal form, such as ``decimal(12,2)``.

    Returns:
        A column of that type. ``text IS NOT NULL AND result IS NULL`` tells a failed cast.

    Cost: no UDF; regular expressions only for types that Spark reads too freely.
    """
    kind = type_name.partition("(")[0]
    return _CASTS[kind](text, type_name)


def _string(text: Column, _: str) -> Column:
    return text


def _boolean(text: Column, _: str) -> Column:
    lower = F.lower(text)
    return F.when(lower.isin("true", "t", "1"), F.lit(True)).when(lower.isin("false", "f", "0"), F.lit(False))


def _integer(text: Column, type_name: str) -> Column:
    return text.try_cast(type_name)


def _float(text: Column, type_name: str) -> Column:
    value = text.try_cast(type_name)
    finite = text.rlike(_NUMBER) & (F.abs(value) < F.lit(float("inf")).cast(type_name))
    return F.when(finite | text.rlike(f"(?i){_INFINITY}"), value)


def _decimal(text: Column, type_name: str) -> Column:
    scale = int(re.findall(r"\d+", type_name)[1])
    dot, size = F.instr(text, "."), F.length(text)
    # Spark takes digits of any script.
    is_ascii = F.octet_length(text) == size
    plain = ((dot == 0) | (size - dot <= scale)) & (F.instr(F.upper(text), "E") == 0) & is_ascii
    # The rare rest is looked at digit by digit: zeros beyond the scale pass, an exponent moves the point.
    zeros_beyond = text.rlike(rf"^\s*[+-]?(?=\.?\d)\d*(\.\d{{0,{scale}}}0*)?\s*\z")
    digits = F.length(F.regexp_extract(text, r"^\s*[+-]?\d*(?:\.(\d*?)0*)?[eE]", 1))
    exponent = F.regexp_extract(text, r"[eE]([+-]?\d+)\s*\z", 1).try_cast("int")
    with_exponent = text.rlike(_NUMBER) & (digits - exponent <= scale)
    return F.when(plain | zeros_beyond | with_exponent, text.try_cast(type_name))


def _date(text: Column, type_name: str) -> Column:
    return F.when(_is_dated(text) & (F.length(text) == len("yyyy-MM-dd")) & text.rlike(_DATE), text.try_cast(type_name))


def _timestamp(text: Column, type_name: str) -> Column:
    zone = _ZONE if type_name == "timestamp" else r"\z"
    return F.when(_is_dated(text) & text.rlike(_TIME + zone), text.try_cast(type_name))


def _binary(text: Column, _: str) -> Column:
    return F.when(text.rlike(r"^([0-9A-Fa-f]{2})*\z"), F.unhex(text))


def _is_dated(text: Column) -> Column:
    return text >= F.lit("0001-01-01")


_CASTS = {
    "string": _string,
    "boolean": _boolean,
    "int": _integer,
    "bigint": _integer,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
    "binary": _binary,
}
