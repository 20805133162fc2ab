"""The keys of dumps as values: two texts of one key in the lake are one row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from frazil.sources.comparison import typed_key

_FOLDS: Final = ("lower", "upper", "trim", "rtrim", "ltrim")
"""Functions that DuckDB and Spark apply alike to ASCII texts."""


@dataclass(frozen=True, slots=True)
class KeyType:
    """The type of a key.

    Attributes:
        type: type in the lake.
        folds: functions of its ``expr``, in the order in which they apply.
    """

    type: str
    folds: tuple[str, ...] = ()

    def value(self, text: str) -> str:
        """Return SQL for the value of a text; only ASCII texts are folded."""
        folded = text
        for fold in self.folds:
            folded = f"{fold}({folded})"
        if self.folds:
            folded = f"CASE WHEN strlen({text}) = length({text}) THEN {folded} ELSE {text} END"
        return typed_key(folded, self.type)


def folds_of(expr: str, field: str) -> tuple[str, ...]:
    """Return the functions of an expression such as ``lower(rtrim(code))``, innermost first; empty for any other.

    Args:
        expr: expression of a key column.
        field: field of the key, in lower case.
    """
    found = re.fullmatch(r"((?:[a-z]+\()+)`?(\w+)`?(\)+)", re.sub(r"\s", "", expr.lower()))
    if found is None or found[2] != field:
        return ()
    names = found[1].split("(")[:-1]
    fits = len(names) == len(found[3]) and all(name in _FOLDS for name in names)
    return tuple(reversed(names)) if fits else ()
