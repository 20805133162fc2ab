"""What an aggregate is computed from, and the ``{{ name }}`` places in its SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.silver.contract import declared_mart, fingerprint
from frazil.spec.sql.gold_order import marts_of, upstream_gold
from frazil.spec.sql.sql import MART, mart_references

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.spec import Gold, Pipeline


def tables_of(pipeline: Pipeline, gold: Gold) -> tuple[str, ...]:
    """Names of the source tables whose marts an aggregate reads, itself and through others, as they are declared."""
    marts = set(marts_of(pipeline, gold))
    return tuple(table.name for table in pipeline.tables if any(table.mart_name(mart) in marts for mart in table.marts))


def declared_gold(pipeline: Pipeline, gold: Gold) -> str:
    """Fingerprint of what an aggregate's rows depend on: the declarations of what it reads are part of it."""
    marts = {table.mart_name(mart): declared_mart(table, mart) for table in pipeline.tables for mart in table.marts}
    others = {one.name: one for one in pipeline.gold if one.name in upstream_gold(pipeline, gold)}
    read = [
        declared_gold(pipeline, others[name]) if name in others else marts.get(name)
        for name in mart_references(gold.sql)
    ]
    return fingerprint({"sql": gold.sql, "marts": read})


def render(sql: str, table: Callable[[str], str]) -> str:
    """Put table names in their places.

    Args:
        sql: the SELECT as declared.
        table: name of a mart or an aggregate -> how the engine at hand names that table, quoted.
    """
    return MART.sub(lambda place: table(place.group(1)), sql)
