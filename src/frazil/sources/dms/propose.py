"""Rules to begin a contract with: only those that every record looked at keeps."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_LEAST_RECORDS: Final = 50
"""Fewer say nothing of what the others are."""

_MOST_VALUES: Final = 12
_LEAST_REPEATS: Final = 3
_CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]{0,23}")
_FREE_TEXT: Final = re.compile(r"(^|_)(note|comment|remark|text|description|message|title|name|subject|reason|memo)s?$")
"""Names of columns in which people write what they like."""
_NUMBERS: Final = ("int", "bigint", "decimal", "float", "double")


def proposed_rules(kind: str, values: Sequence[str | None], *, is_key: bool, name: str = "") -> dict[str, Any]:
    """Propose rules of a column, as settings of it.

    ``nullable: false`` where none is NULL; ``accepted_values`` where a text has few that look like codes, each of which
    comes several times;
    ``min: 0`` where no number is negative and some are positive. No other bounds: the next record may well pass them.

    Args:
        kind: type of the column.
        values: of all records that leave a row behind, as text; None for NULL.
        is_key: it names rows, or orders changes, so it is never NULL in any case.
        name: of the column; those in which people write have no accepted values.

    Returns:
        The settings, ``on_violation: warn`` with them; none of few records, and none that a record breaks.
    """
    known = [value for value in values if value is not None]
    if is_key or len(values) < _LEAST_RECORDS or not known:
        return {}
    found: dict[str, Any] = {"nullable": False} if len(known) == len(values) else {}
    if kind == "string" and not _FREE_TEXT.search(name.lower()) and (accepted := _few(known)):
        found["accepted_values"] = accepted
    if kind.partition("(")[0] in _NUMBERS and _is_never_negative(known):
        found["min"] = "0"
    return found | ({"on_violation": "warn"} if found else {})


def _few(values: Collection[str]) -> tuple[str, ...]:
    """Return the values if they are few, in order; none where they are many, all the same, or seldom repeated."""
    counts = Counter(values)
    if not 1 < len(counts) <= _MOST_VALUES or min(counts.values()) < _LEAST_REPEATS:
        return ()
    # Words of a closed list look like codes; what people write has blanks, quotes and line ends.
    return tuple(sorted(counts)) if all(map(_CODE.fullmatch, counts)) else ()


def _is_never_negative(values: Collection[str]) -> bool:
    try:
        least, most = (Decimal(pick(map(Decimal, values))) for pick in (min, max))
    except ArithmeticError:
        return False  # NaN is a number of Parquet's, and has no order
    return least >= 0 and most > 0
