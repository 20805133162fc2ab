"""Which columns of marts each column of an aggregate is computed from, by SQLGlot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.gold.template import render
from frazil.spec.sql.gold_order import gold_in_order
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.spec import Pipeline

Origins = dict[str, tuple[tuple[str, str], ...]]
"""Column -> the (table, column) pairs that its values come from; none for a constant or ``count(*)``."""


def gold_lineage(pipeline: Pipeline, marts: Mapping[str, Mapping[str, str]]) -> dict[str, Origins]:
    """Return the origins of the columns of each aggregate, in the order in which they are refreshed.

    Columns that only decide which rows there are (WHERE, JOIN, GROUP BY of others) are no origins.

    Args:
        pipeline: the declaration.
        marts: mart -> its columns and their types.

    Returns:
        Aggregate -> its columns' origins: marts, and aggregates that it reads itself. None of an aggregate whose SELECT
        SQLGlot does not understand.
    """
    known = {name: {column: kind or "string" for column, kind in columns.items()} for name, columns in marts.items()}
    found: dict[str, Origins] = {}
    for gold in gold_in_order(pipeline):
        found[gold.name] = _origins(render(gold.sql, quote), known)
        known[gold.name] = dict.fromkeys(found[gold.name], "string")
    return found


def _origins(sql: str, known: Mapping[str, Mapping[str, str]]) -> Origins:
    from sqlglot import exp, parse_one  # noqa: PLC0415 - only who asks for lineage pays for it
    from sqlglot.errors import SqlglotError  # noqa: PLC0415
    from sqlglot.lineage import lineage  # noqa: PLC0415
    from sqlglot.optimizer.qualify import qualify  # noqa: PLC0415

    schema: dict[str, object] = {name: dict(columns) for name, columns in known.items()}
    try:
        tree = qualify(parse_one(sql, dialect="spark"), dialect="spark", schema=schema, validate_qualify_columns=False)
        if not isinstance(tree, exp.Query):
            return {}
        found: Origins = {}
        for column in tree.named_selects:
            leaves = [
                (node.source.name, node.name.rpartition(".")[2].strip('`"'))
                for node in lineage(column, tree, schema=schema, dialect="spark").walk()
                if not node.downstream and isinstance(node.source, exp.Table)
            ]
            found[column] = tuple(dict.fromkeys(leaves))
    except SqlglotError:
        return {}
    return found
