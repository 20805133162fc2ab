"""Aggregates over marts: their inputs, and the ``{{ name }}`` placeholders in their SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.silver.contract import declared_mart, fingerprint
from frazil.spec.sql.sql import MART, mart_references, marts_of, upstream_gold

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.spec import Gold, Pipeline


def tables_of(pipeline: Pipeline, gold: Gold) -> tuple[str, ...]:
    """Return the source tables whose marts an aggregate reads, directly or through others, in declared order."""
    marts = set(marts_of(pipeline, gold))
    return tuple(table.name for table in pipeline.tables if any(table.mart_name(mart) in marts for mart in table.marts))


def declared_gold(pipeline: Pipeline, gold: Gold) -> str:
    """Return the fingerprint of the settings of an aggregate's rows, including those of its inputs."""
    marts = {table.mart_name(mart): declared_mart(table, mart) for table in pipeline.tables for mart in table.marts}
    others = {one.name: one for one in pipeline.gold if one.name in upstream_gold(pipeline, gold)}
    read = [
        declared_gold(pipeline, others[name]) if name in others else marts.get(name)
        for name in mart_references(gold.sql)
    ]
    return fingerprint({"sql": gold.sql, "marts": read})


def render(sql: str, table: Callable[[str], str]) -> str:
    """Replace the placeholders by table names.

    Args:
        sql: the SELECT as declared.
        table: name of a mart or aggregate -> quoted name of its table in the engine.
    """
    return MART.sub(lambda place: table(place.group(1)), sql)
