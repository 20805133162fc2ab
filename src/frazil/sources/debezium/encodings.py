"""Decode the values that Debezium and Kafka Connect write into the texts that silver casts.

Debezium writes a placeholder for a value that the database did not send; :func:`is_unavailable` detects it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from frazil.formats.json_lines import Number, Pairs, text_of
from frazil.spec.model.kinds.debezium import DECIMAL
from frazil.spec.model.types import MAX_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Decode: TypeAlias = "Callable[[Any], str | None]"
"""Returns the text of a JSON value that is not null; raises :class:`NoValueError` for an invalid value."""


class NoValueError(Exception):
    """A JSON value is invalid in its encoding; the message has the reason without the value."""


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ZERO: Final = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal(), date.max.toordinal()
_FIRST_US: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_MICROSECONDS: Final = 1_000_000
_LONGEST_TIME_SECONDS: Final = 839 * 3600
"""MySQL's TIME goes from -838:59:59 to 838:59:59."""
_YEARS: Final = "outside the years 0001 to 9999"


class Field(NamedTuple):
    """The encoding of a field: the Spark type of its texts and the decoder; None takes the value unchanged."""

    type: str
    decode: Decode | None = None


def decimal(scale: int) -> Decode:
    """Return the decoder of a number whose digits are a big-endian integer in base64."""

    def decode(value: Any) -> str | None:
        if isinstance(value, Number):  # decimal.format=NUMERIC
            return str(value)
        return _scaled(_bytes(value), scale)

    return decode


def encoded(name: str) -> Field:
    """Return the field for a declared encoding."""
    scale = DECIMAL.fullmatch(name)
    return Field(f"decimal({MAX_DIGITS},{scale[1]})", decimal(int(scale[1]))) if scale else _ENCODED[name]


def described(schema: Mapping[str, Any]) -> Field:
    """Return the field for a schema of Kafka Connect.

    A schema with an unknown name is read by its type. A struct, list or map becomes JSON; the items of a list are
    decoded.
    """
    name, kind = str(schema.get("name") or ""), str(schema.get("type"))
    parameters = dict(schema.get("parameters") or ())
    if name == "org.apache.kafka.connect.data.Decimal":
        scale = int(parameters.get("scale", 0))
        precision = int(parameters.get("connect.decimal.precision", MAX_DIGITS))
        fits = 0 <= scale <= precision <= MAX_DIGITS
        return Field(f"decimal({precision},{scale})" if fits else "string", decimal(scale))
    if name in _NAMED:
        return _NAMED[name]
    if kind == "array":
        items = dict(schema.get("items") or ())
        inner = described(items)
        is_json = inner.type.startswith("decimal") or str(items.get("type")) == "array"
        return Field("string", inner.decode and _listed(inner.decode, is_json=is_json))
    return _PLAIN.get(kind, Field("string"))


def _listed(decode: Decode, *, is_json: bool) -> Decode:
    """Return the decoder of a list, which gives JSON; ``is_json`` is True if the texts of its items are JSON."""

    def decode_all(value: Any) -> str:
        if not isinstance(value, list) or isinstance(value, Pairs):
            raise NoValueError("no list")
        texts = [None if one is None else decode(one) for one in value]
        shown = (text if is_json else json.dumps(text, ensure_ascii=False) for text in texts)
        return f"[{', '.join('null' if one is None else one for one in shown)}]"

    return decode_all


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str) or isinstance(value, Number):
        raise NoValueError("no base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise NoValueError("no base64") from None


def _scaled(data: bytes, scale: int) -> str:
    unscaled = int.from_bytes(data, "big", signed=True) * 10 ** max(-scale, 0)
    # Python limits the digits of integers as text, but not those of decimals.
    digits = f"{Decimal(abs(unscaled))}".rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale > 0 else f"{sign}{digits}"


def _hex(value: Any) -> str:
    return _bytes(value).hex()


def _variable_decimal(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    fields = dict(value) if isinstance(value, Pairs) else {}
    if not fields.keys() >= {"scale", "value"}:
        raise NoValueError("no object with scale and value")
    return _scaled(_bytes(fields["value"]), _whole(fields["scale"]))


def _date(value: Any) -> str:
    days = _whole(value)
    if not _FIRST_DAY <= days + _DAY_ZERO <= _LAST_DAY:
        raise NoValueError(_YEARS)
    return date.fromordinal(days + _DAY_ZERO).isoformat()


def _timestamp(per_second: int) -> Decode:
    def decode(value: Any) -> str:
        count = _whole(value)
        seconds, rest = divmod(count, per_second)
        micros, nanos = divmod(rest * (1_000_000_000 // per_second), 1_000)
        micros += seconds * _MICROSECONDS
        if not _FIRST_US <= micros <= _LAST_US:
            raise NoValueError(_YEARS)
        text = (_EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
        return text + f"{nanos:03}".rstrip("0")

    return decode


def _time(per_second: int) -> Decode:
    """Return the decoder of a time of day or a duration: MySQL's TIME may be negative and exceed 24 hours."""
    digits = len(str(per_second)) - 1

    def decode(value: Any) -> str:
        count = _whole(value)
        if abs(count) >= _LONGEST_TIME_SECONDS * per_second:
            raise NoValueError("outside the times -838:59:59 to 838:59:59")
        seconds, rest = divmod(abs(count), per_second)
        sign = "-" if count < 0 else ""
        clock = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f"{rest:0{digits}}".rstrip("0")
        return f"{clock}.{fraction}" if fraction else clock

    return decode


def _text(value: Any) -> str:
    if isinstance(value, Number) or not isinstance(value, str):
        raise NoValueError("no text")
    return value


def _without_zone(value: Any) -> str:
    return _text(value).removesuffix("Z")


def _whole(value: Any) -> int:
    try:
        return int(value if isinstance(value, Number) else "")
    except ValueError:
        raise NoValueError("no whole number") from None


_ENCODED: Final = {
    "text": Field("string"),
    "base64": Field("binary", _hex),
    "hex": Field("binary"),
    "variable_decimal": Field("string", _variable_decimal),
    "date": Field("date", _date),
    "milli_timestamp": Field("timestamp_ntz", _timestamp(1_000)),
    "micro_timestamp": Field("timestamp_ntz", _timestamp(1_000_000)),
    "nano_timestamp": Field("timestamp_ntz", _timestamp(1_000_000_000)),
    "milli_time": Field("string", _time(1_000)),
    "micro_time": Field("string", _time(1_000_000)),
    "nano_time": Field("string", _time(1_000_000_000)),
}
_CONNECT, _TIME, _DATA = "org.apache.kafka.connect.data", "io.debezium.time", "io.debezium.data"
_NAMED: Final = {
    f"{_CONNECT}.Date": _ENCODED["date"],
    f"{_CONNECT}.Time": _ENCODED["milli_time"],
    f"{_CONNECT}.Timestamp": _ENCODED["milli_timestamp"],
    f"{_TIME}.Date": _ENCODED["date"],
    f"{_TIME}.Time": _ENCODED["milli_time"],
    f"{_TIME}.MicroTime": _ENCODED["micro_time"],
    f"{_TIME}.NanoTime": _ENCODED["nano_time"],
    f"{_TIME}.Timestamp": _ENCODED["milli_timestamp"],
    f"{_TIME}.MicroTimestamp": _ENCODED["micro_timestamp"],
    f"{_TIME}.NanoTimestamp": _ENCODED["nano_timestamp"],
    f"{_TIME}.ZonedTimestamp": Field("timestamp", _text),
    f"{_TIME}.ZonedTime": Field("string", _text),
    f"{_TIME}.IsoDate": Field("date", _without_zone),
    f"{_TIME}.IsoTime": Field("string", _without_zone),
    f"{_TIME}.IsoTimestamp": Field("timestamp_ntz", _without_zone),
    f"{_DATA}.VariableScaleDecimal": _ENCODED["variable_decimal"],
}
"""Name of a schema -> its field. Values of other names (Json, Uuid, Enum, Xml, Interval, Year, …) are read by type."""

_PLAIN: Final = {
    "boolean": Field("boolean"),
    "int8": Field("int"),
    "int16": Field("int"),
    "int32": Field("int"),
    "int64": Field("bigint"),
    "float": Field("float"),
    "float32": Field("float"),
    "double": Field("double"),
    "float64": Field("double"),
    "bytes": Field("binary", _hex),
}


_HEX_PREFIX: Final = "hex:"
_SHAPES: Final = frozenset(
    {
        "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==",
        "AQEAACDmEAAADCHn/f9/ZkAYQs77/39WQA==",
        "AQEAAAAAAAD8g9eXwQAAAPyD15fB",
    }
)
"""Well-known binary of the points that mark an unavailable geometry, geography and point."""


def is_unavailable(value: Any, marker: str) -> bool:
    """Return True if a value is the placeholder for an unavailable value.

    The form of the placeholder depends on the type of the column:

    - text: the marker;
    - bytes: the marker in base64 or hexadecimal digits;
    - JSON and hstore: an object with the marker, as a value or in a text;
    - array: one element, or one element for each byte of the marker;
    - uuid[]: a UUID derived from the marker;
    - geometry: a distant point.

    Args:
        value: JSON value that is not null.
        marker: ``unavailable.value.placeholder``; hexadecimal digits after ``hex:`` for bytes.
    """
    if isinstance(value, str):
        return value in _texts(marker) or (value[:1] in {"{", "["} and _compact(value) in _nested(marker))
    if isinstance(value, Pairs):
        return _is_shape(dict(value)) or _compact(text_of(value)) in _nested(marker)
    if isinstance(value, list):
        return _compact(text_of(value)) in _nested(marker) or _are_bytes(value, _placeholder_bytes(marker))
    return False


def _compact(text: str | None) -> str:
    return (text or "").replace(" ", "")


@cache
def _placeholder_bytes(marker: str) -> bytes:
    if not marker.startswith(_HEX_PREFIX):
        return marker.encode()
    try:
        return bytes.fromhex(marker.removeprefix(_HEX_PREFIX))
    except ValueError:
        return marker.encode()


@cache
def _texts(marker: str) -> frozenset[str]:
    data = _placeholder_bytes(marker)
    text, safe = data.decode(errors="replace"), base64.urlsafe_b64encode(data).decode()
    binary = {base64.b64encode(data).decode(), safe, safe.rstrip("="), data.hex(), data.hex().upper()}
    return frozenset({text, json.dumps(text), *binary})


@cache
def _nested(marker: str) -> frozenset[str]:
    """Return the placeholders of maps and arrays, as JSON without blanks."""
    data = _placeholder_bytes(marker)
    text = json.dumps(data.decode(errors="replace"))
    uuid = UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)
    single = [text, json.dumps(base64.b64encode(data).decode()), f'"{uuid}"']
    each = [json.dumps(base64.b64encode(bytes([byte])).decode()) for byte in data]
    structs = [f'{{"scale":0,"value":{digit}}}' for digit in each]
    lists = [*([one] for one in single), each, structs, ["true"] * len(data)]
    return frozenset(map(_compact, [f"{{{text}:{text}}}", *(f"[{','.join(items)}]" for items in lists)]))


def _are_bytes(items: list[Any], data: bytes) -> bool:
    """Return True if numbers are the bytes, scaled by one power of ten as in an array of decimals."""
    if len(items) != len(data) or not all(isinstance(item, Number) for item in items):
        return False
    signed = [byte - 256 if byte > 127 else byte for byte in data]  # noqa: PLR2004 - Java's bytes have a sign
    pairs = [(Decimal(item), byte) for item, byte in zip(items, signed, strict=True)]
    return any(all(item.scaleb(scale) == byte for item, byte in pairs) for scale in range(MAX_DIGITS + 1))


def _is_shape(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("wkb"), str) and fields["wkb"] in _SHAPES
