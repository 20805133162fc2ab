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
array, struct  JSON whose values are such texts: see :mod:`frazil.silver.cast`; arrays also as PostgreSQL
               prints them
=============  ==============================================================================

Spark's ``VARIANT`` parses the JSON and keeps numbers as decimals of up to 38 digits. Every value in it is then cast as
:mod:`frazil.silver.cast` casts a text. Rules:

- A number that ``VARIANT`` keeps as a ``double``, because it has an exponent or more digits, is a value of type
  ``double`` only, and not if it overflows or is zero.
- An object that names a field twice is not a value.
- A field that the type does not name is ignored. A missing field, or a null, is NULL.

An array may also be in the form that PostgreSQL prints, such as ``{1,NULL,"a,b"}``; it becomes JSON first. Commas
separate values. A value with a special sign is in quotes, with a backslash before quotes and backslashes. ``NULL``
without quotes is NULL, in any case. Braces within braces are dimensions. Bounds in front (``[0:1]={…}``) are the
indexes of the array. All values become texts of JSON, ready to be cast.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from frazil.errors import SessionError
from frazil.older_spark import is_older_spark
from frazil.spec.model.types import ARRAY, inner_of, is_nested, outer_of, struct_fields
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
_WITH_ZONE = r":\d{2}(\.\d+)? ?(Z|UTC|[+-]\d{2}(:?\d{2})?)\z"
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


def has_zone(text: str) -> str:
    """Write the condition that the text of a timestamp names its zone."""
    return f"trim({text}) RLIKE {literal(_WITH_ZONE)}"


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


_ARRAY, _OBJECT, _TEXT = ("'array<variant>'", "'map<string,variant>'", "'string'")


class NestedCast:
    """Writes the cast of a text to a nested type.

    Args:
        exact: writes the cast of a text to a type that is not nested.

    Raises:
        SessionError: this is Spark 3.5.
    """

    def __init__(self, exact: Callable[[str, str], str]) -> None:
        self._exact = exact
        self._names: Iterator[int] = count(1)

    def value(self, text: str, kind: str) -> str:
        """Write the value of a text; NULL if the text is not exactly such a value."""
        return self._let(self._parsed(text, kind), lambda json: self._value(json, kind))

    def problem(self, text: str, kind: str) -> str:
        """Write the path and the text of the first invalid value in a text; NULL without any."""
        found = self._let(self._parsed(text, kind), lambda json: self._problem(json, kind, literal("$")))
        return f"coalesce({found}, {literal('no JSON')})"

    def left_out(self, text: str, kind: str) -> str:
        """Write the path of a field in a text's objects that the type does not name; NULL without any."""
        return self._let(self._parsed(text, kind), lambda json: self._left_out(json, kind, literal("")))

    def _parsed(self, text: str, kind: str) -> str:
        if is_older_spark():
            raise SessionError(
                f"a column of type {kind} needs VARIANT, which Spark 3.5 does not have",
                hint="run it with Spark 4, or declare the column as string",
            )
        if outer_of(kind) != ARRAY:
            return _parsed(text)
        as_json = self._let(tokens_of(text), lambda tokens: json_of(text, tokens, self._name()))
        return self._let(as_json, _parsed)

    def _let(self, value: str, body: Callable[[str], str]) -> str:
        """Write an expression that uses a value more than once but computes it once."""
        name = self._name()
        return f"get(transform(array({value}), {name} -> {body(name)}), 0)"

    def _name(self) -> str:
        return f"_v{next(self._names)}"

    def _value(self, json: str, kind: str) -> str:
        if outer_of(kind) == ARRAY:
            return self._let(_as(json, _ARRAY), lambda items: self._array(items, inner_of(kind)))
        if is_nested(kind):
            return self._let(_as(json, _OBJECT), lambda fields: self._struct(fields, kind))
        is_inexact = f"coalesce(schema_of_variant({json}) = 'DOUBLE', false)"
        if kind == "double":
            is_inexact += f" AND {_as(json, _TEXT)} IN ('Infinity', '-Infinity', '0.0', '-0.0')"
        cast = self._let(_as(json, _TEXT), lambda text: self._exact(text, kind))
        return f"CASE WHEN NOT ({is_inexact}) THEN {cast} END"

    def _array(self, items: str, kind: str) -> str:
        item, pair = self._name(), self._name()
        pairs = f"transform({items}, {item} -> struct({item} AS said, {self._value(item, kind)} AS value))"

        def checked(found: str) -> str:
            are_values = f"forall({found}, {pair} -> {_is_value(f'{pair}.said', f'{pair}.value')})"
            return f"CASE WHEN {are_values} THEN transform({found}, {pair} -> {pair}.value) END"

        return self._let(pairs, checked)

    def _struct(self, fields: str, kind: str) -> str:
        values = ", ".join(
            f"{literal(name)}, {self._let(_field(fields, name), lambda json, inner=inner: self._value(json, inner))}"  # type: ignore[misc]
            for name, inner in struct_fields(kind)
        )

        def checked(found: str) -> str:
            each = (_is_value(_field(fields, name), f"{found}.{quote(name)}") for name, _ in struct_fields(kind))
            return f"CASE WHEN {fields} IS NOT NULL AND {' AND '.join(each)} THEN {found} END"

        return self._let(f"named_struct({values})", checked)

    def _problem(self, json: str, kind: str, at: str) -> str:
        there = f"{json} IS NOT NULL AND NOT is_variant_null({json})"
        shown = f"concat({at}, ' is ', substring({_as(json, _TEXT)}, 1, 80))"
        if outer_of(kind) == ARRAY:
            item, place, found = self._name(), self._name(), self._name()
            inner = self._problem(item, inner_of(kind), f"concat({at}, '[', {place}, ']')")
            items = _as(json, _ARRAY)
            first = f"get(filter(transform({items}, ({item}, {place}) -> {inner}), {found} -> {found} IS NOT NULL), 0)"
            return f"CASE WHEN {there} THEN CASE WHEN {items} IS NULL THEN {shown} ELSE {first} END END"
        if is_nested(kind):
            fields = _as(json, _OBJECT)
            each = [
                self._let(
                    _field(fields, name),
                    lambda field, name=name, inner=inner: self._problem(  # type: ignore[misc]
                        field, inner, f"concat({at}, {literal(f'.{name}')})"
                    ),
                )
                for name, inner in struct_fields(kind)
            ]
            first = f"coalesce({', '.join(each)})"
            return f"CASE WHEN {there} THEN CASE WHEN {fields} IS NULL THEN {shown} ELSE {first} END END"
        return f"CASE WHEN {there} AND {self._value(json, kind)} IS NULL THEN {shown} END"

    def _left_out(self, json: str, kind: str, at: str) -> str:
        if outer_of(kind) == ARRAY:
            item, found = self._name(), self._name()
            inner = self._left_out(item, inner_of(kind), f"concat({at}, '[]')")
            each = f"transform({_as(json, _ARRAY)}, {item} -> {inner})"
            return f"get(filter({each}, {found} -> {found} IS NOT NULL), 0)"
        if not is_nested(kind):
            return "CAST(NULL AS string)"
        fields = _as(json, _OBJECT)
        named = ", ".join(literal(name) for name, _ in struct_fields(kind))
        own = f"get(array_except(map_keys({fields}), array({named})), 0)"
        within = [
            self._let(
                _field(fields, name),
                lambda field, name=name, inner=inner: self._left_out(  # type: ignore[misc]
                    field, inner, f"concat({at}, {literal(f'.{name}')})"
                ),
            )
            for name, inner in struct_fields(kind)
            if is_nested(inner)
        ]
        told = [f"concat({at}, '.', substring({own}, 1, 80))", *within]
        return f"coalesce({', '.join(told)})"


def _parsed(text: str) -> str:
    """Write the JSON of a text that is exactly one JSON value; Spark's parser ignores text after the value.

    The text is parsed once inside an array and once inside an object: no trailing text can end both.
    """
    items, field = _as(f"try_parse_json(concat('[', {text}, ']'))", _ARRAY), literal('{"v":')
    is_alone = f"size({items}) = 1 AND try_parse_json(concat({field}, {text}, '}}')) IS NOT NULL"
    return f"CASE WHEN {is_alone} THEN get({items}, 0) END"


def _as(json: str, kind: str) -> str:
    return f"try_variant_get({json}, '$', {kind})"


def _field(fields: str, name: str) -> str:
    return f"try_element_at({fields}, {literal(name)})"


def _is_value(said: str, value: str) -> str:
    return f"({said} IS NULL OR is_variant_null({said}) OR {value} IS NOT NULL)"


_BOUNDS: Final = literal(r"^(\[[-+]?\d+:[-+]?\d+\])+=(?=\{)")
_TOKENS: Final = literal(r'"(?:[^"\\]|\\["\\])*+"|[{},]|[^{},"\\]++')
_CONTROL: Final = literal(r"[\x00-\x1f]")
_LAST_CONTROL: Final = 0x1F
_QUOTE: Final = literal('"')


def tokens_of(text: str) -> str:
    """Write the tokens of a printed array as an array of texts; NULL for a text with another beginning."""
    begins = f"startswith({text}, '{{') OR {text} RLIKE {_BOUNDS}"
    return f"CASE WHEN {begins} THEN regexp_extract_all({_without_bounds(text)}, {_TOKENS}, 0) END"


def json_of(text: str, tokens: str, token: str) -> str:
    """Write a text as JSON if it is an array in the form of PostgreSQL; other texts are unchanged.

    Args:
        text: SQL of the text, repeated in the result.
        tokens: SQL of its :func:`tokens_of`, repeated in the result.
        token: unused name for a variable.

    Cost: none for texts that begin neither with a brace nor with bounds.
    """
    json = f"array_join(transform({tokens}, {token} -> {_token(token)}), '')"
    # An array consists of tokens only.
    is_whole = f"array_join({tokens}, '') = {_without_bounds(text)}"
    return f"CASE WHEN {is_whole} AND try_parse_json({json}) IS NOT NULL THEN {json} ELSE {text} END"


def _without_bounds(text: str) -> str:
    return f"regexp_replace({text}, {_BOUNDS}, '')"


def _token(token: str) -> str:
    sign = f"CASE upper({token}) WHEN '{{' THEN '[' WHEN '}}' THEN ']' WHEN ',' THEN ',' WHEN 'NULL' THEN 'null' END"
    quoted = f"CASE WHEN startswith({token}, {_QUOTE}) THEN {token} ELSE concat({_QUOTE}, {token}, {_QUOTE}) END"
    escaped = quoted
    for number in range(1, _LAST_CONTROL + 1):
        in_json = literal(f"\\u{number:04x}")
        escaped = f"replace({escaped}, chr({number}), {in_json})"
    return f"coalesce({sign}, CASE WHEN {token} RLIKE {_CONTROL} THEN {escaped} ELSE {quoted} END)"
