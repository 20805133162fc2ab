"""Names of column types: accepted spellings, normal names, parts of nested types, and policies for their changes."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pydantic import Field

from frazil.errors import DeclarationError
from frazil.spec.model.base import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator


OnChange: TypeAlias = Literal["evolve", "keep", "quarantine", "fail"]
"""Follow the change; keep the tables unchanged; send records with the change to quarantine; stop the run."""


class Evolution(Spec):
    """Policies for new, missing and retyped fields of a source."""

    on_new_column: OnChange | None = Field(
        default=None,
        description="A field that the source did not have: evolve (a new column), keep (in bronze alone), quarantine "
        '(records with a value in it) or fail. Left out: evolve; keep where columns are declared without "*".',
    )
    on_missing_column: Literal["keep", "quarantine", "fail"] = Field(
        default="keep",
        description="A field that new files lack: keep (rows keep the values that they had), quarantine (records "
        "without it) or fail.",
    )
    on_type_change: OnChange = Field(
        default="quarantine",
        description="A field whose type at the source is another one: quarantine (int to bigint, float to double and a "
        "decimal with more digits at the same scale widen the column; other values that do not fit it wait), evolve (a "
        "type that holds both, at last text), keep (the column stays as it is) or fail.",
    )


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
"""Types without parameters; the others are ``decimal(p,s)``, ``array<…>`` and ``struct<name:…,…>``."""

TIMES: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
"""Types of an event time."""

BeyondMicroseconds: TypeAlias = Literal["truncate", "round", "text", "quarantine"]
"""Policy for digits of a timestamp beyond microseconds, which tables cannot keep."""

MAX_DIGITS: Final = 38
"""Maximum digits of a decimal in Iceberg and Spark."""

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
    """Return the normal name of a column type, as Spark SQL writes it.

    Args:
        text: a type name in any case. Aliases such as ``integer``, ``long``, ``text``, ``numeric(p,s)``, ``datetime``
            mean ``int``, ``bigint``, ``string``, ``decimal(p,s)`` and ``timestamp``. ``varchar(n)`` loses its length:
            Iceberg has one text type.

    Returns:
        One of ``SIMPLE``, or ``decimal(p,s)``, ``array<…>`` or ``struct<name:…,…>`` without blanks.

    Raises:
        DeclarationError: the type does not exist (the hint has the nearest), or a decimal cannot have these digits.
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
    fields = struct_fields(text)
    names = [name for name, _ in fields]
    for name, kind in fields:
        if not _FIELD_NAME.fullmatch(name) or not kind:
            hint = "write 'struct<name: string, size: int>': letters, digits and _ in names"
            raise DeclarationError(f"unknown type '{text}'", hint=hint)
        if [other.lower() for other in names].count(name.lower()) > 1:
            raise DeclarationError(f"type '{text}' names '{name}' twice", hint="upper and lower case are the same name")
    return f"struct<{','.join(f'{name}:{column_type(kind)}' for name, kind in fields)}>"


def _decimal(text: str, digits: str | None, scale: str | None) -> str:
    # Spark's default of decimal(10,0) would drop the fraction, so the digits must be declared.
    if digits is None:
        raise DeclarationError(f"type '{text}' does not say how many digits", hint="write 'decimal(18,2)' or the like")
    p, s = int(digits), int(scale or 0)
    if not 1 <= p <= MAX_DIGITS or s > p:
        raise DeclarationError(
            f"unknown type '{text}'", hint=f"in decimal(p,s), p is 1 to {MAX_DIGITS} and s at most p"
        )
    return f"decimal({p},{s})"


def widens(before: str, after: str) -> bool:
    """Return whether Iceberg can widen a column from one type to another without rewriting rows.

    Args:
        before: the type of the column; blanks are ignored.
        after: the wider type.
    """
    before, after = plain_type(before), plain_type(after)
    if (before, after) in _WIDER:
        return True
    if before.startswith("decimal(") and after.startswith("decimal("):
        (p, s), (q, t) = (tuple(map(int, kind[8:-1].split(","))) for kind in (before, after))
        return q > p and s == t
    return False


def keeps_values(before: str, after: str) -> bool:
    """Return whether a type widens another one and gives the same value for every text.

    ``double`` does not: ``0.1`` as a ``double`` differs from ``0.1`` as a ``float``.
    """
    return widens(before, after) and plain_type(before) != "float"


def type_after(have: str, kind: str, policy: OnChange) -> str:
    """Return the type of a field after a type change: see :class:`frazil.spec.model.types.Evolution`.

    Args:
        have: the present type of the field.
        kind: the new type at the source.
        policy: ``on_type_change``.

    Returns:
        With ``evolve`` the least type that represents all values of both exactly, at last ``string``; the order of
        arrival does not matter. With ``keep`` the present type. Otherwise the new type if it is wider, else the
        present one.
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


def holds(have: str, kind: str) -> bool:
    """Return whether a type represents all values of another one exactly."""
    return type_after(have, kind, "evolve") == have


def _digits(kind: str) -> tuple[int, int]:
    """Return the digits of a type before and after the point; (0, 0) unless the type is an exact number."""
    if kind in _WHOLE_DIGITS:
        return _WHOLE_DIGITS[kind], 0
    if not plain_type(kind).startswith("decimal("):
        return 0, 0
    p, s = map(int, plain_type(kind)[8:-1].split(","))
    return p - s or 1, s


def plain_type(kind: str) -> str:
    """Return a type in lower case without blanks, as a schema prints it."""
    return "".join(kind.lower().split())


ARRAY, STRUCT = "array", "struct"
_OPEN, _CLOSE = "<(", ">)"
_FIELD: Final = re.compile(r"^([^\s:<]*)\s*:?")
"""The name of a field, up to a colon or a blank."""
_NESTED: Final = (ARRAY, STRUCT)


def is_nested(kind: str) -> bool:
    """Return whether a type is an array or a struct."""
    return outer_of(kind) in _NESTED


def outer_of(kind: str) -> str:
    """Return the name of a type without its parts or digits."""
    return kind.partition("<")[0].partition("(")[0].strip().lower()


def inner_of(kind: str) -> str:
    """Return the text between the first ``<`` of a type and its final ``>``; empty for other types."""
    text = kind.strip()
    return text.partition("<")[2][:-1] if "<" in text and text.endswith(">") else ""


def struct_fields(kind: str) -> tuple[tuple[str, str], ...]:
    """Return the names and types of a struct's fields, as written; a name without a type has an empty type."""
    found = []
    for part in _parts(inner_of(kind)):
        name, _, type_name = _FIELD.sub(r"\1:", part.strip(), count=1).partition(":")
        found.append((name, type_name.strip()))
    return tuple(found)


def _parts(text: str) -> Iterator[str]:
    """Split a text at its commas outside of brackets."""
    depth = begin = 0
    for at, sign in enumerate(text):
        depth += (sign in _OPEN) - (sign in _CLOSE)
        if sign == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]
