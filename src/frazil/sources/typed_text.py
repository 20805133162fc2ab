"""DuckDB SQL that casts texts to types of a declaration, as :mod:`frazil.silver.cast` does."""

from __future__ import annotations

import re
from typing import Final

_TYPES: Final = {"timestamp_ntz": "TIMESTAMP"}
"""DuckDB's names of Spark types, where they differ."""
_AS_TEXT: Final = ("string", "array", "struct")


def is_text(type_name: str) -> bool:
    """Return True for a type whose values are the texts themselves."""
    return re.split(r"[(<]", type_name)[0] in _AS_TEXT


def typed_text(text: str, type_name: str) -> str:
    """Return SQL that casts a text to a type; NULL if the text does not fit. The session's time zone is UTC.

    DuckDB accepts more texts than the lake does, such as ``1.0`` for an int.
    """
    if is_text(type_name):
        return text
    if type_name == "binary":
        digits = f"regexp_replace({text}, '^\\\\x', '')"
        return f"CASE WHEN regexp_full_match({digits}, '([0-9A-Fa-f]{{2}})*') THEN unhex({digits}) END"
    if type_name == "timestamp":
        # DuckDB accepts no blank before a zone.
        return f"TRY_CAST(regexp_replace(trim({text}), ' (Z|[+-][0-9:]+)$', '\\1') AS TIMESTAMPTZ)"
    value = f"TRY_CAST(trim({text}) AS {_TYPES.get(type_name, type_name)})"
    if type_name.startswith("decimal"):
        # DuckDB would round.
        scale = re.findall(r"\d+", type_name)[1]
        return f"CASE WHEN length(rtrim(split_part(trim({text}), '.', 2), '0')) <= {scale} THEN {value} END"
    return value


def typed_key(text: str, type_name: str) -> str:
    """Return SQL as :func:`typed_text`, without fractions for whole numbers: a key is exact or none."""
    value = typed_text(text, type_name)
    if type_name not in {"int", "bigint"}:
        return value
    return f"CASE WHEN regexp_full_match(trim({text}), '[+-]?[0-9]+') THEN {value} END"
