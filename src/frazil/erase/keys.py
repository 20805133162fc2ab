"""Keys to erase, as texts; needs no Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from frazil.errors import DeclarationError

if TYPE_CHECKING:
    from frazil.spec import Table


class EraseError(DeclarationError):
    """The keys or the condition to erase cannot be used."""

    code = "FZ112"


def parse_key(table: Table, text: str) -> tuple[str, ...]:
    """Return the texts of a key's columns, in the order of ``keys``.

    Args:
        table: the declaration.
        text: a JSON object by name, a JSON array in the order of ``keys``, or the plain value of a single-column key.

    Raises:
        EraseError: the text has another form.
    """
    if len(table.keys) == 1 and text[:1] != "{":
        return (text,)
    try:
        given = json.loads(text, parse_float=str, parse_int=str)
    except ValueError:
        given = None
    if isinstance(given, dict):
        by_name = {str(name).lower(): value for name, value in given.items()}
        given = [by_name[key.lower()] for key in table.keys] if {*by_name} == {*map(str.lower, table.keys)} else None
    if not isinstance(given, list) or len(given) != len(table.keys) or not all(isinstance(v, str) for v in given):
        if len(table.keys) == 1:
            return (text,)
        example = json.dumps(dict.fromkeys(table.keys, "…"), ensure_ascii=False)
        raise EraseError(
            f"--key: the key of table {table.name!r} is {', '.join(table.keys)}", hint=f"give it as {example}"
        )
    return tuple(given)
