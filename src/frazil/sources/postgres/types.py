"""Map types of PostgreSQL to types of Spark that hold every value; all others become ``string``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

BYTEA: Final = 17
_NUMERIC: Final = 1700
_TYPES: Final = {
    16: "boolean",
    BYTEA: "binary",
    20: "bigint",
    21: "int",
    23: "int",
    700: "float",
    701: "double",
    1082: "date",
    1114: "timestamp_ntz",
    1184: "timestamp",
}
"""Number of a built-in type (``pg_type.oid``, the same on every server) -> Spark's."""

_HEADER_BYTES: Final = 4
_MOST_DIGITS: Final = 38


def spark_type_of(oid: int, modifier: int) -> str:
    """Return the Spark type of a type of PostgreSQL.

    Args:
        oid: number of the type; for a domain, the number of its base type.
        modifier: ``atttypmod``, or -1. A ``numeric`` without a modifier has values of any size and becomes ``string``.
    """
    if oid != _NUMERIC:
        return _TYPES.get(oid, "string")
    if modifier < _HEADER_BYTES:
        return "string"
    digits, scale = (modifier - _HEADER_BYTES) >> 16 & 0xFFFF, (modifier - _HEADER_BYTES) & 0x7FF
    return f"decimal({digits},{scale})" if scale <= digits <= _MOST_DIGITS else "string"


def base_type(oid: int, modifier: int, domains: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """Return number and modifier of the base type of a domain; other types are returned unchanged.

    Args:
        oid: number of the type.
        modifier: modifier of the type.
        domains: number of a domain -> number and modifier of the type below it.
    """
    while oid in domains:
        oid, modifier = domains[oid]
    return oid, modifier
