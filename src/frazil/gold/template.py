"""The ``{{ table }}`` places in an aggregate's SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.silver.contract import declared_mart, fingerprint
from frazil.spec.sql import MART, mart_references

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.spec import Gold, Pipeline


def tables_of(pipeline: Pipeline, gold: Gold) -> tuple[str, ...]:
    """Names of the source tables whose marts an aggregate reads, in the order of the declaration."""
    marts = set(mart_references(gold.sql))
    return tuple(table.name for table in pipeline.tables if any(table.mart_name(mart) in marts for mart in table.marts))


def declared_gold(pipeline: Pipeline, gold: Gold) -> str:
    """Fingerprint of what an aggregate's rows depend on, its marts' declarations among it."""
    marts = {table.mart_name(mart): declared_mart(table, mart) for table in pipeline.tables for mart in table.marts}
    return fingerprint({"sql": gold.sql, "marts": [marts.get(name) for name in mart_references(gold.sql)]})


def render(sql: str, table: Callable[[str], str]) -> str:
    """Put table names in their places.

    Args:
        sql: the SELECT as declared.
        table: mart name -> how the engine at hand names that table, quoted.
    """
    return MART.sub(lambda place: table(place.group(1)), sql)
