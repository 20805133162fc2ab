"""The ``{{ table }}`` places in an aggregate's SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from frazil.silver.contract import declared_mart, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.spec import Gold, Pipeline

_PLACE = re.compile(r"\{\{\s*([A-Za-z0-9_]+)\s*\}\}")


def inputs(sql: str) -> tuple[str, ...]:
    """Names of the marts a SELECT reads, each once, in order of first use."""
    return tuple(dict.fromkeys(_PLACE.findall(sql)))


def tables_of(pipeline: Pipeline, gold: Gold) -> tuple[str, ...]:
    """Names of the source tables whose marts an aggregate reads, in the order of the declaration."""
    marts = set(inputs(gold.sql))
    return tuple(table.name for table in pipeline.tables if any(table.mart_name(mart) in marts for mart in table.marts))


def declared_gold(pipeline: Pipeline, gold: Gold) -> str:
    """Fingerprint of what an aggregate's rows depend on, its marts' declarations among it."""
    marts = {table.mart_name(mart): declared_mart(table, mart) for table in pipeline.tables for mart in table.marts}
    return fingerprint({"sql": gold.sql, "marts": [marts.get(name) for name in inputs(gold.sql)]})


def render(sql: str, table: Callable[[str], str]) -> str:
    """Put table names in their places.

    Args:
        sql: the SELECT as declared.
        table: mart name -> how the engine at hand names that table, quoted.
    """
    return _PLACE.sub(lambda place: table(place.group(1)), sql)
