"""What Debezium writes in place of a value that the database did not tell, in a form that the column's type has."""

from __future__ import annotations

import base64
import hashlib
import json
from decimal import Decimal
from functools import cache
from typing import Any, Final
from uuid import UUID

from frazil.formats.json.text import Number, Pairs, text_of
from frazil.spec.model.types import MAX_DIGITS

_HEX_PREFIX: Final = "hex:"
_SHAPES: Final = frozenset(
    {
        "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==",
        "AQEAACDmEAAADCHn/f9/ZkAYQs77/39WQA==",
        "AQEAAAAAAAD8g9eXwQAAAPyD15fB",
    }
)
"""Well-known binary of the points that stand for a geometry, a geography and a point."""


def is_unavailable(value: Any, marker: str) -> bool:
    """Return whether a value says that the database did not tell one.

    A text stands for itself; for bytes its base64 or its hexadecimal digits; for JSON and hstore an object of it, as a
    value or in a text; for an array one element, or one for each of its bytes; for a uuid[] the UUID made of it; for a
    shape a point far away.

    Args:
        value: of JSON, not null.
        marker: ``unavailable.value.placeholder``; bytes in hexadecimal digits behind ``hex:``.
    """
    if isinstance(value, str):
        return value in _texts(marker) or (value[:1] in {"{", "["} and _compact(value) in _nested(marker))
    if isinstance(value, Pairs):
        return _is_shape(dict(value)) or _compact(text_of(value)) in _nested(marker)
    if isinstance(value, list):
        return _compact(text_of(value)) in _nested(marker) or _are_bytes(value, _bytes(marker))
    return False


def _compact(text: str | None) -> str:
    return (text or "").replace(" ", "")


@cache
def _bytes(marker: str) -> bytes:
    if not marker.startswith(_HEX_PREFIX):
        return marker.encode()
    try:
        return bytes.fromhex(marker.removeprefix(_HEX_PREFIX))
    except ValueError:
        return marker.encode()


@cache
def _texts(marker: str) -> frozenset[str]:
    data = _bytes(marker)
    text, safe = data.decode(errors="replace"), base64.urlsafe_b64encode(data).decode()
    binary = {base64.b64encode(data).decode(), safe, safe.rstrip("="), data.hex(), data.hex().upper()}
    return frozenset({text, json.dumps(text), *binary})


@cache
def _nested(marker: str) -> frozenset[str]:
    """Return what stands for maps and arrays, as JSON without blanks."""
    data = _bytes(marker)
    text = json.dumps(data.decode(errors="replace"))
    uuid = UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)
    single = [text, json.dumps(base64.b64encode(data).decode()), f'"{uuid}"']
    each = [json.dumps(base64.b64encode(bytes([byte])).decode()) for byte in data]
    structs = [f'{{"scale":0,"value":{digit}}}' for digit in each]
    lists = [*([one] for one in single), each, structs, ["true"] * len(data)]
    return frozenset(map(_compact, [f"{{{text}:{text}}}", *(f"[{','.join(items)}]" for items in lists)]))


def _are_bytes(items: list[Any], data: bytes) -> bool:
    """Return whether numbers are those of bytes, all with the point at one place: a decimal's digits."""
    if len(items) != len(data) or not all(isinstance(item, Number) for item in items):
        return False
    signed = [byte - 256 if byte > 127 else byte for byte in data]  # noqa: PLR2004 - Java's bytes have a sign
    pairs = [(Decimal(item), byte) for item, byte in zip(items, signed, strict=True)]
    return any(all(item.scaleb(scale) == byte for item, byte in pairs) for scale in range(MAX_DIGITS + 1))


def _is_shape(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("wkb"), str) and fields["wkb"] in _SHAPES
