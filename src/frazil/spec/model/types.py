"""Names of column types: what a user may write, and the one name each stands for."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from frazil.errors import DeclarationError
from frazil.spec.model.nested import ARRAY, fields_of, inner_of, is_nested, outer_of

if TYPE_CHECKING:
    from frazil.spec.model.evolution import OnChange

SIMPLE: Final = (
    "boolean",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
)
"""The names without numbers; others are ``decimal(p,s)``, ``array<…>`` and ``struct<name:…,…>``."""

TIMES: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
"""The types that can be an event time."""

BeyondMicroseconds: TypeAlias = Literal["truncate", "round", "text", "quarantine"]
"""What becomes of the digits of a timestamp beyond microseconds, which no table keeps."""

MAX_DIGITS: Final = 38
"""Iceberg and Spark keep at most this many digits in a decimal."""

_ALIASES: Final = {
    "bool": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "short": "int",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "double precision": "double",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "str": "string",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
    "timestamp_ltz": "timestamp",
    "bytes": "binary",
    "bytea": "binary",
}
_FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WIDER: Final = {("int", "bigint"), ("float", "double")}
_WHOLE_DIGITS: Final = {"int": 10, "bigint": 19}
_SIZED_TEXT: Final = re.compile(r"(?:var)?char ?\( ?\d+ ?\)")
_DECIMAL: Final = re.compile(r"(?:decimal|numeric|dec)(?: ?\( ?(\d+) ?(?:, ?(\d+) ?)?\))?")


def column_type(text: str) -> str:
    """Return the one name of a column type, as Spark SQL writes it.

    Args:
        text: a type name in any case; ``integer``, ``long``, ``text``, ``varchar(n)``, ``numeric(p,s)`` and
            ``datetime`` stand for ``int``, ``bigint``, ``string``, ``decimal(p,s)`` and ``timestamp``.
            The length of a ``varchar(n)`` is dropped: Iceberg has one text type.

    Returns:
        One of ``SIMPLE``, or ``decimal(p,s)``, ``array<…>`` or ``struct<name:…,…>`` without blanks.

    Raises:
        DeclarationError: no such type (the hint names the nearest), or digits that no decimal has.
    """
    if is_nested(text):
        return _nested(text)
    name = " ".join(text.lower().split())
    if name in SIMPLE:
        return name
    if name in _ALIASES:
        return _ALIASES[name]
    if _SIZED_TEXT.fullmatch(name):
        return "string"
    if found := _DECIMAL.fullmatch(name):
        return _decimal(text, found[1], found[2])
    if outer_of(text) == "map":
        raise DeclarationError(
            f"type '{text}' is not supported: Spark does not compare maps, and histories compare values",
            hint="write 'string', which keeps the JSON, or 'struct<name: type>' if the names are known",
        )
    near = get_close_matches(name, [*SIMPLE, *_ALIASES, "decimal(p,s)"], n=1)
    hint = (
        f"did you mean '{near[0]}'?"
        if near
        else f"known are {', '.join(SIMPLE)}, decimal(p,s), array<type> and struct<name: type>"
    )
    raise DeclarationError(f"unknown type '{text}'", hint=hint)


def _nested(text: str) -> str:
    if not inner_of(text).strip():
        raise DeclarationError(f"type '{text}' does not say of what", hint="write 'array<int>' or 'struct<name: int>'")
    if outer_of(text) == ARRAY:
        return f"array<{column_type(inner_of(text))}>"
    fields = fields_of(text)
    names = [name for name, _ in fields]
    for name, kind in fields:
        if not _FIELD_NAME.fullmatch(name) or not kind:
            hint = "write 'struct<name: string, size: int>': letters, digits and _ in names"
            raise DeclarationError(f"unknown type '{text}'", hint=hint)
        if [other.lower() for other in names].count(name.lower()) > 1:
            raise DeclarationError(f"type '{text}' names '{name}' twice", hint="upper and lower case are the same name")
    return f"struct<{','.join(f'{name}:{column_type(kind)}' for name, kind in fields)}>"


def _decimal(text: str, digits: str | None, scale: str | None) -> str:
    # Spark's silent decimal(10,0) would drop the fraction, so the digits have to be said.
    if digits is None:
        raise DeclarationError(f"type '{text}' does not say how many digits", hint="write 'decimal(18,2)' or the like")
    p, s = int(digits), int(scale or 0)
    if not 1 <= p <= MAX_DIGITS or s > p:
        raise DeclarationError(
            f"unknown type '{text}'", hint=f"in decimal(p,s), p is 1 to {MAX_DIGITS} and s at most p"
        )
    return f"decimal({p},{s})"


def widens(before: str, after: str) -> bool:
    """Return whether a type has all values of another one, and Iceberg makes a column of it without rewriting rows.

    Args:
        before: the type that the column has, as a schema prints it, blanks aside.
        after: the other one.
    """
    before, after = plain_type(before), plain_type(after)
    if (before, after) in _WIDER:
        return True
    if before.startswith("decimal(") and after.startswith("decimal("):
        (p, s), (q, t) = (tuple(map(int, kind[8:-1].split(","))) for kind in (before, after))
        return q > p and s == t
    return False


def keeps_values(before: str, after: str) -> bool:
    """Return whether a type widens another one, and a text that both can say means the same value in both.

    ``0.1`` does not: as a ``double`` it is another number than the ``float`` of it.
    """
    return widens(before, after) and plain_type(before) != "float"


def type_after(have: str, kind: str, policy: OnChange) -> str:
    """Return the type of a field once values of another type came: see :class:`frazil.spec.model.evolution.Evolution`.

    Args:
        have: its type so far.
        kind: the type that the source gives it now.
        policy: ``on_type_change``.

    Returns:
        With ``evolve``, whatever the order of arrival, the least type that says every value of both exactly; ``string``
        is the last. With ``keep`` the type so far; else a wider type, if it is one.
    """
    if policy == "keep" or plain_type(have) == plain_type(kind):
        return have
    if policy != "evolve":
        return kind if widens(have, kind) else have
    if widens(have, kind) or widens(kind, have):
        return kind if widens(have, kind) else have
    (whole, scale), (other, other_scale) = _digits(have), _digits(kind)
    scale = max(scale, other_scale)
    digits = max(whole, other) + scale
    return f"decimal({digits},{scale})" if whole and other and digits <= MAX_DIGITS else "string"


def _digits(kind: str) -> tuple[int, int]:
    """Return how many digits a type has before and behind the point; no digits for one that is no exact number."""
    if kind in _WHOLE_DIGITS:
        return _WHOLE_DIGITS[kind], 0
    if not plain_type(kind).startswith("decimal("):
        return 0, 0
    p, s = map(int, plain_type(kind)[8:-1].split(","))
    return p - s or 1, s


def plain_type(kind: str) -> str:
    """Write a type the one way that a schema prints it: without blanks."""
    return "".join(kind.lower().split())
