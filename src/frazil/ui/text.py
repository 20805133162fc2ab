"""Values of the lake as text for people; hostile signs are shown as codes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, Final

from markupsafe import Markup, escape

from frazil.serve.query.plain import json_text, plain
from frazil.spec.amount import visible

MOST_SIGNS: Final = 300
_CELL_BREAKS: Final = {"\n": "⏎", "\t": "⇥"}


def finalize(value: Any) -> Any:
    """Return what a template writes for a value: texts without hostile signs, and nothing for None."""
    if value is None:
        return ""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value)


def as_typed(text: str) -> Markup:
    """Return a text for a form field, where its signs must stay as they were typed."""
    return escape(text.encode("utf-8", "replace").decode("utf-8"))


def value_text(value: Any, most: int = MOST_SIGNS) -> str:
    """Return a value of the lake as one line; long ones are cut, and say how long they are."""
    if value == "":
        return "''"
    if isinstance(value, dt.datetime):
        text = moment(value)
    else:
        exact = plain(value)
        text = exact if isinstance(exact, str) else json_text(exact)
    cut = f"{text[:most]}… ({len(text):,} characters)" if len(text) > most else text
    for sign, shown in _CELL_BREAKS.items():
        cut = cut.replace(sign, shown)
    return visible(cut)


def is_number(value: Any) -> bool:
    """Whether a value is set to the right in a table."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


_SHORT_TYPES: Final = {"TIMESTAMP WITH TIME ZONE": "timestamptz", "VARCHAR": "text"}


def type_text(kind: str) -> str:
    """Return DuckDB's name of a type, short."""
    return _SHORT_TYPES.get(kind, kind.lower())


def moment(value: dt.datetime | None) -> str:
    """Return a time in UTC as ``2026-01-02 08:00:00``, with its fraction if it has one; empty for None."""
    if value is None:
        return ""
    utc = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return f"{utc:%Y-%m-%d %H:%M:%S}" if not utc.microsecond else f"{utc}".rstrip("0")


_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def age(value: dt.datetime | None, now: dt.datetime) -> str:
    """Return how long ago a time is, in its largest unit, such as ``3 h``; empty for None."""
    if value is None:
        return ""
    seconds = max(0, int((now - value).total_seconds()))
    size, unit = next((size, unit) for size, unit in _AGES if seconds >= size or size == 1)
    return f"{seconds // size} {unit}"


def whole(value: int | None) -> str:
    """Return a count with separators."""
    return "" if value is None else f"{value:,}"
