"""Types, keys and order, guessed from values: never more than what every value says."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_INT: Final = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL: Final = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,6})?"
    r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_INT_BITS, _BIGINT_BITS, _MOST_DIGITS = 31, 63, 38
_USUAL_DIGITS: Final = 18
_OPERATIONS: Final = frozenset({"I", "U", "D"})
_KEY_TYPES: Final = frozenset({"int", "bigint", "decimal(38,0)", "string"})
_MOSTLY: Final = 0.9
_LONGEST_NAME: Final = 128

_ORDER_NAMES: Final = (
    re.compile(r"updat|modif|last_chang|changed"),
    re.compile(r"(^|_)ts$|timestamp|commit"),
)
"""Names of columns that tell when a row changed, the surest first."""


def type_of(values: Collection[str]) -> str:
    """Find the narrowest type that every value is an exact text of.

    Args:
        values: the texts that are not NULL; none at all make a string.

    Returns:
        ``int`` and ``bigint`` for digits without leading zeros; ``decimal(18,s)`` or ``decimal(38,s)`` with
        the longest fraction seen; ``boolean`` for true and false; ``date``, ``timestamp``; else ``string``.
    """
    if not values:
        return "string"
    if all(_INT.fullmatch(value) for value in values):
        return _integer(max(abs(int(value[: _MOST_DIGITS + 2])) for value in values))
    if decimal := _decimal(values):
        return decimal
    rules = {"boolean": _is_boolean, "date": _is_date, "timestamp": _is_timestamp}
    return next((kind for kind, fits in rules.items() if all(map(fits, values))), "string")


def _is_boolean(text: str) -> bool:
    return text.lower() in {"true", "false"}


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _is_real(text, date)


def _is_timestamp(text: str) -> bool:
    found = _TIMESTAMP.fullmatch(text)
    return found is not None and _is_real(found[1], datetime)


def _is_real(text: str, kind: type[date]) -> bool:
    try:
        kind.fromisoformat(text)
    except ValueError:
        return False
    return True


def _integer(largest: int) -> str:
    bits, digits = largest.bit_length(), len(str(largest))
    if bits <= _INT_BITS:
        return "int"
    if bits <= _BIGINT_BITS:
        return "bigint"
    return f"decimal({_MOST_DIGITS},0)" if digits <= _MOST_DIGITS else "string"


def _decimal(values: Collection[str]) -> str | None:
    whole = scale = 0
    for value in values:
        found = _DECIMAL.fullmatch(value)
        # A negative zero would lose its sign.
        if found is None or (found[1] and not value.strip("-0.")):
            return None
        whole, scale = max(whole, len(found[2])), max(scale, len(found[3] or ""))
    for digits in (_USUAL_DIGITS, _MOST_DIGITS):
        if whole + scale <= digits:
            return f"decimal({digits},{scale})"
    return None


def mostly(values: Sequence[str]) -> str | None:
    """Return which narrower type most values have, where a few outliers decide the type of all.

    Args:
        values: the texts that are not NULL.

    Returns:
        Such as ``int in 714 of 717 values``; None if less than nine in ten agree, or no value differs.
    """
    if not values:
        return None
    kinds = Counter(_family(value) for value in values)
    [(family, count)] = kinds.most_common(1)
    if family == "string" or count == len(values) or count < _MOSTLY * len(values):
        return None
    kind = type_of({value for value in values if _family(value) == family})
    return f"{kind} in {count} of {len(values)} values"


def _family(value: str) -> str:
    """Return one name for the types that widen into one another for any sample."""
    kind = type_of([value])
    return "number" if kind in {"int", "bigint"} or kind.startswith("decimal(18,") else kind


def is_operation(value: str | None) -> bool:
    """Return whether a field is an op letter."""
    return value in _OPERATIONS


def looks_like_names(record: Sequence[str | None]) -> bool:
    """Return whether a record could be a header: distinct short texts that are no values of another type."""
    names = [value for value in record if value and len(value) <= _LONGEST_NAME and value.isprintable()]
    return (
        len(names) == len(record)
        and len({name.lower() for name in names}) == len(names)
        and not is_operation(names[0])
        and all(type_of([name]) == "string" and not name[0].isdigit() for name in names)
    )


def key_of(table: str, types: Mapping[str, str], rows: Mapping[str, Sequence[str | None]]) -> tuple[str, bool]:
    """Guess the column that names a row.

    Args:
        table: name of the table; ``id``, ``<table>_id`` and the like come first.
        types: the columns in order, with their types; at least one.
        rows: their values in records that are each another row.

    Returns:
        The column, and whether it was seen to be unique and without NULL; if none is, the likeliest by name.
    """
    likely = sorted(types, key=lambda name: _key_rank(name.lower(), table))
    unique = [
        name
        for name in likely
        if types[name] in _KEY_TYPES
        and rows.get(name)
        and None not in rows[name]
        and len(set(rows[name])) == len(rows[name])
    ]
    return (unique[0], True) if unique else (likely[0], False)


def _key_rank(name: str, table: str) -> int:
    singulars = {table, table.removesuffix("s"), table.removesuffix("es"), re.sub("ies$", "y", table)}
    if name == "id" or name in {f"{singular}_id" for singular in singulars}:
        return 0
    return 1 if re.search(r"(^|_)(id|uuid|guid|key)$", name) else 2


def sequence_of(types: Mapping[str, str], rows: Mapping[str, Sequence[str | None]]) -> str | None:
    """Guess the timestamp that tells when a row changed, by its name; one without NULL comes first."""
    ranked = [
        (None in rows.get(name, ()), rank, position, name)
        for position, (name, kind) in enumerate(types.items())
        for rank, rule in enumerate(_ORDER_NAMES)
        if kind == "timestamp" and rule.search(name.lower())
    ]
    return min(ranked)[-1] if ranked else None
