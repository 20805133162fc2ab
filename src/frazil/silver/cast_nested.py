r"""JSON to structs and arrays, exactly or not at all.

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

from itertools import count
from typing import TYPE_CHECKING, Final

from frazil.errors import SessionError
from frazil.older_spark import is_older_spark
from frazil.spec.model.types import ARRAY, inner_of, is_nested, outer_of, struct_fields
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
