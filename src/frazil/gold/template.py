"""The ``{{ table }}`` places in an aggregate's SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PLACE = re.compile(r"\{\{\s*([A-Za-z0-9_]+)\s*\}\}")


def inputs(sql: str) -> tuple[str, ...]:
    """Names of the marts a SELECT reads, each once, in order of first use."""
    return tuple(dict.fromkeys(_PLACE.findall(sql)))


def render(sql: str, table: Callable[[str], str]) -> str:
    """Put table names in their places.

    Args:
        sql: the SELECT as declared.
        table: mart name -> how the engine at hand names that table, quoted.
    """
    return _PLACE.sub(lambda place: table(place.group(1)), sql)
