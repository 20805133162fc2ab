"""How Debezium and Kafka Connect write values, and the texts that they say: those that silver casts from."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from frazil.formats.json_text import Number, text_of
from frazil.spec.kinds.debezium import DECIMAL
from frazil.spec.types import MAX_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Decode: TypeAlias = "Callable[[Any], str | None]"
"""Takes a JSON value that is not null, and returns its text; one that is no such value comes back as it stands."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ZERO: Final = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal(), date.max.toordinal()
_FIRST_US: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


class Field(NamedTuple):
    """How a field is written: the Spark type of its texts, and what makes them; None for the value as it stands."""

    type: str
    decode: Decode | None = None


def decimal(scale: int) -> Decode:
    """Return what reads a number whose digits are the base64 of an integer, big end first."""

    def decode(value: Any) -> str | None:
        if isinstance(value, Number):  # decimal.format=NUMERIC
            return str(value)
        data = _bytes(value)
        return text_of(value) if data is None else _scaled(data, scale)

    return decode


def encoded(name: str) -> Field:
    """Return how a field of a declared encoding is written."""
    scale = DECIMAL.fullmatch(name)
    return Field(f"decimal({MAX_DIGITS},{scale[1]})", decimal(int(scale[1]))) if scale else _ENCODED[name]


def described(schema: Mapping[str, Any]) -> Field:
    """Return how a field is written of which Kafka Connect's schema is given.

    Unknown names are what their type is; a struct, list or map is JSON.
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
    return _PLAIN.get(kind, Field("string"))


def _bytes(value: Any) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        return None


def _scaled(data: bytes, scale: int) -> str:
    unscaled = int.from_bytes(data, "big", signed=True) * 10 ** max(-scale, 0)
    # Python refuses to write integers of many digits, decimals it does not.
    digits = f"{Decimal(abs(unscaled))}".rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale > 0 else f"{sign}{digits}"


def _hex(value: Any) -> str | None:
    data = _bytes(value)
    return text_of(value) if data is None else data.hex()


def _variable_decimal(value: Any) -> str | None:
    fields = dict(value) if isinstance(value, list) and all(isinstance(one, tuple) for one in value) else {}
    data = _bytes(fields.get("value"))
    scale = _whole(fields.get("scale"))
    return text_of(value) if data is None or scale is None else _scaled(data, scale)


def _date(value: Any) -> str | None:
    days = _whole(value)
    if days is None or not _FIRST_DAY <= days + _DAY_ZERO <= _LAST_DAY:
        return text_of(value)
    return date.fromordinal(days + _DAY_ZERO).isoformat()


def _timestamp(per_second: int) -> Decode:
    def decode(value: Any) -> str | None:
        count = _whole(value)
        if count is None:
            return text_of(value)
        micros, rest = divmod(count * 1_000_000, per_second)
        # What is finer than a microsecond is no timestamp of ours, and a year of five digits neither.
        if rest or not _FIRST_US <= micros <= _LAST_US:
            return text_of(value)
        return (_EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")

    return decode


def _time(per_second: int) -> Decode:
    digits = len(str(per_second)) - 1

    def decode(value: Any) -> str | None:
        count = _whole(value)
        if count is None or not 0 <= count <= 86_400 * per_second:
            return text_of(value)
        seconds, rest = divmod(count, per_second)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f"{rest:0{digits}}".rstrip("0")
        return f"{clock}.{fraction}" if fraction else clock

    return decode


def _without_zone(value: Any) -> str | None:
    return str(value).removesuffix("Z") if isinstance(value, str) else text_of(value)


def _whole(value: Any) -> int | None:
    try:
        return int(value) if isinstance(value, Number) else None
    except ValueError:
        return None


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
    f"{_TIME}.ZonedTimestamp": Field("timestamp"),
    f"{_TIME}.IsoDate": Field("date", _without_zone),
    f"{_TIME}.IsoTime": Field("string", _without_zone),
    f"{_TIME}.IsoTimestamp": Field("timestamp_ntz", _without_zone),
    f"{_DATA}.VariableScaleDecimal": _ENCODED["variable_decimal"],
}
"""Name of a schema -> how its values are written; names that are not here (Json, Uuid, Enum, Xml, ZonedTime, Interval,
Year, …) are the text or number that their type is."""

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
