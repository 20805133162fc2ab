"""Exact JSON forms of the lake's values; a value without a JSON type becomes text."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, Final


def plain(value: object) -> Any:  # noqa: PLR0911 - one return a kind of value
    """Return a value in JSON's types.

    Returns:
        Numbers and booleans unchanged, integers of any size. Decimals as text without exponent. Dates as
        ``2024-02-01``. Timestamps as ``2024-02-01T08:00:00.000000Z`` in UTC, without ``Z`` if the type has no time
        zone. Bytes in hexadecimal. ``NaN``, ``Infinity`` and ``-Infinity`` as text. Dataclasses and structs as objects
        with text for names. Any other value as Python prints it.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case Decimal():
            return f"{value:f}"
        case dt.datetime():
            return _moment(value)
        case dt.date() | dt.time():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case Mapping():
            return {name if isinstance(name, str) else f"{plain(name)}": plain(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            return f"{value}"


SCHEMA_VERSION: Final = 1
"""Version of the shape of :func:`document`; it grows when a name changes its meaning or goes away."""


def document(value: object) -> dict[str, Any]:
    """Return a dataclass or a mapping as a JSON object with ``schema_version``.

    Ids of snapshots are text, as JavaScript rounds numbers of more than 53 bits.
    """
    return {"schema_version": SCHEMA_VERSION, **_with_text_ids(plain(value))}


def _with_text_ids(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: f"{part}" if name.endswith("snapshot_id") and part is not None else _with_text_ids(part)
                for name, part in value.items()
            }
        case list():
            return [*map(_with_text_ids, value)]
        case _:
            return value


def json_text(value: object) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def _moment(value: dt.datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    return f"{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
