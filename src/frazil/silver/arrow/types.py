"""Cast texts to contracted types by Arrow, for the usual forms of each type.

A proven value equals that of :func:`frazil.silver.cast.exact` for the same text. Other texts may be valid or invalid;
callers leave them to that function.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.spec.model.types import TIMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.spec.model.types import BeyondMicroseconds

_DAY: Final = (
    r"[12][0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_TIME: Final = rf"{_DAY}[ T](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?"
_BEYOND: Final = r"(\.[0-9]{6})[0-9]+"
_MIDNIGHT: Final = r"[ T]00:00:00(?:\.0{1,9})?"
_DAY_DIGITS: Final = 10
_ZONE: Final = r"(?:Z|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?)"
_REAL: Final = r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?"
_UTC: Final = pa.timestamp("us", "UTC")


def is_provable(type_name: str) -> bool:
    """Return whether Arrow can prove texts of a type."""
    return type_name.partition("(")[0] in {*_PROOFS, "string", "decimal", *TIMES}


def proven(texts: Any, type_name: str, beyond: BeyondMicroseconds = "quarantine") -> tuple[Any, Any]:
    """Return the values of texts, and a mask of the proven ones.

    Args:
        texts: a text column.
        type_name: a type of the contract in normal form, for which :func:`is_provable` holds.
        beyond: policy for digits of a timestamp beyond microseconds; texts with such digits are proven only with
            ``truncate``.

    Returns:
        A column of that type, and booleans without NULL. A NULL text is a proven NULL. Unproven values are NULL.

    Cost: one regular expression and one cast of the column.
    """
    kind = type_name.partition("(")[0]
    if kind == "string":
        return texts, pa.repeat(pa.scalar(value=True), len(texts))
    if kind in {"timestamp", "timestamp_ntz"}:
        return _moments(texts, kind, cuts=beyond == "truncate")
    if kind == "date":
        return _days(texts)
    if kind == "decimal":
        digits, scale = map(int, re.findall(r"\d+", type_name))
        whole = f"(?:0|[1-9][0-9]{{0,{digits - scale - 1}}})" if digits > scale else "0"
        fraction = rf"(?:\.[0-9]{{1,{scale}}})?" if scale else ""
        return _by(texts, f"-?{whole}{fraction}", lambda some: some.cast(pa.decimal128(digits, scale)))
    pattern, cast = _PROOFS[kind]
    return _by(texts, pattern, cast)


def _moments(texts: Any, kind: str, *, cuts: bool) -> tuple[Any, Any]:
    bare, is_proven = _by(texts, _TIME, lambda some: some.cast(pa.timestamp("us")))
    bare = bare if kind == "timestamp_ntz" else bare.cast(_UTC)
    if pc.all(is_proven).as_py():
        return bare, is_proven
    if cuts:
        texts = pc.replace_substring_regex(texts, _BEYOND, r"\1")
        cut, is_proven = _by(texts, _TIME, lambda some: some.cast(pa.timestamp("us")))
        bare = cut if kind == "timestamp_ntz" else cut.cast(_UTC)
    if kind == "timestamp_ntz":
        return bare, is_proven
    zoned, is_zoned = _by(texts, _TIME + _ZONE, lambda some: some.cast(_UTC))
    return pc.coalesce(zoned, bare), pc.or_(is_proven, is_zoned)


def _days(texts: Any) -> tuple[Any, Any]:
    days, are_days = _by(texts, _DAY, lambda some: some.cast(pa.date32()))
    if pc.all(are_days).as_py():
        return days, are_days
    return _by(
        texts,
        f"{_DAY}(?:{_MIDNIGHT})?",
        lambda some: pc.utf8_slice_codeunits(some, 0, _DAY_DIGITS).cast(pa.date32()),
    )


def _by(texts: Any, pattern: str, cast: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Cast the texts that a pattern matches in full; the cast cannot fail on these."""
    is_proven = pc.fill_null(pc.match_substring_regex(texts, rf"\A(?:{pattern})\z"), fill_value=True)
    if not pc.all(is_proven).as_py():
        texts = pc.if_else(is_proven, texts, None)
    return cast(texts), is_proven


def _to(kind: Any) -> Callable[[Any], Any]:
    return lambda texts: texts.cast(kind)


_PROOFS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "boolean": ("true|false", lambda texts: pc.equal(texts, "true")),
    "int": ("0|-?(?:[1-9][0-9]{0,8}|1[0-9]{9})", _to(pa.int32())),
    "bigint": ("0|-?(?:[1-9][0-9]{0,17}|[1-8][0-9]{18})", _to(pa.int64())),
    "float": (_REAL, _to(pa.float32())),
    "double": (_REAL, _to(pa.float64())),
}
