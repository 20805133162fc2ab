"""Rules of one column in Arrow, where a value that keeps one here keeps it in Spark too.

Of a value that does not, nothing is said: who asks leaves it to :func:`frazil.silver.rules.breaks`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.silver.arrow.types import is_provable, proven

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.silver.rules import RowRule

_SIGN: Final = r"[A-Za-z0-9 _\-@:;,'\"/#%=!<>~]|\\[.dw\-/+*?()\[\]{}^$|\\]"
_CLASS: Final = r"\[-?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9 _@:;,/#%=!<>~.+*?()]|\\[dw.\-\[\]/\\])+-?\]"
_REPEATED: Final = r"(?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})?"
_ALIKE: Final = re.compile(rf"\^?(?:(?:{_SIGN}|{_CLASS}){_REPEATED}|\((?:\?:)?|\){_REPEATED}|\|)*\$?")
"""Patterns that Java's engine finds wherever Arrow's does. They have no dot and no negated class, which stand for other
characters there, and anchors at the ends alone."""

_COMPARE: Final = {"min": pc.greater_equal, "max": pc.less_equal}


def kept_in_arrow(rule: RowRule) -> Callable[[Any], Any] | None:
    """Return a function that tells which values of a column keep a rule; None where Spark has to judge.

    It takes a column of the rule's type and gives booleans without NULL; NULL keeps every rule but ``not_null``.

    Args:
        rule: of one column.

    Cost: of what is returned, one pass over the column.
    """
    match rule.name:
        case "not_null":
            return lambda values: values.is_valid()
        case "min_length" | "max_length":
            length, compare = int(rule.values[0]), _COMPARE[rule.name[:3]]
            return lambda values: _null_keeps(compare(pc.utf8_length(values), length))
        case "pattern":
            pattern = rule.values[0]
            is_alike = _ALIKE.fullmatch(pattern) and _compiles(pattern)
            return (lambda values: _null_keeps(pc.match_substring_regex(values, pattern))) if is_alike else None
        case _:
            return _kept_by_value(rule)


def _kept_by_value(rule: RowRule) -> Callable[[Any], Any] | None:
    bounds = _values(rule)
    if bounds is None:
        return None
    if rule.name == "accepted_values":
        return lambda values: pc.or_(pc.is_in(values, bounds), values.is_null())
    compare = _COMPARE[rule.name]
    return lambda values: _null_keeps(compare(values, bounds[0]))


def _null_keeps(keeps: Any) -> Any:
    return pc.fill_null(keeps, fill_value=True)


def _values(rule: RowRule) -> pa.Array | None:
    """Return what is declared, in the column's type; None where some of it has an unusual form."""
    if not is_provable(rule.type):
        return None
    values, is_proven = proven(pa.array(rule.values, pa.string()), rule.type)
    return values if pc.all(is_proven).as_py() else None


def _compiles(pattern: str) -> bool:
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        return False
    return True
