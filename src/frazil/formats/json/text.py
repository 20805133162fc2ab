"""JSON taken apart exactly: every value of an object as the text it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class NoObjectError(Exception):
    """A text is not a JSON object, names a field twice, or holds a value that cannot be decoded.

    Attributes:
        said: fields of the record that can still be read, by lower-case name: its key and its place; else empty.
    """

    def __init__(self, reason: str, said: Mapping[str, str | None] | None = None) -> None:
        super().__init__(reason)
        self.said = dict(said or {})


class Number(str):
    """The digits of a number."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object, its fields in order."""


def parsed(text: str) -> Any:
    """Return a JSON text's value: objects as :class:`Pairs`, numbers as :class:`Number`.

    Raises:
        NoObjectError: the text is not valid JSON; the message says why.
    """
    try:
        return json.loads(
            text, object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise NoObjectError(f"malformed_json: {error}") from None


def object_fields(text: str) -> list[tuple[str, str | None]]:
    """Return the fields of an object in order: a string as its text, a number as its digits, what is nested as JSON.

    Raises:
        NoObjectError: the text is not an object; the message says why.
    """
    pairs = parsed(text)
    if not isinstance(pairs, Pairs):
        raise NoObjectError("malformed_json: not an object")
    found = [(name, text_of(value)) for name, value in pairs]
    if len({name.lower() for name, _ in found}) < len(found):
        raise NoObjectError("malformed_json: a field is named twice")
    if "\\u" in text:
        try:
            "".join(f"{name}{value}" for name, value in found).encode()
        except UnicodeEncodeError:
            raise NoObjectError("malformed_json: an unpaired surrogate") from None
    return found


def _no_constant(name: str) -> str:
    raise ValueError(f"{name} is not a JSON value")


def text_of(value: Any) -> str | None:
    """Return a value as text, NULL for null."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    return _json(value)


def _json(value: Any) -> str:
    """Write a value as JSON, numbers as they were."""
    match value:
        case Number():
            return str(value)
        case Pairs():
            return "{" + ", ".join(f"{json.dumps(name)}: {_json(inner)}" for name, inner in value) + "}"
        case list():
            return "[" + ", ".join(map(_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
