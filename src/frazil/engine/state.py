"""Read where a lake stands and what its sources offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.engine.ledger import read_ledger
from frazil.lake.heads import head
from frazil.plan.state import BRONZE, SILVER, TableState, gold_state, table_state
from frazil.sources.offer import offer
from frazil.spec import CATALOG
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from frazil.engine.context import Context
    from frazil.spec import Pipeline


def read_state(context: Context, *, rebuild: bool) -> TableState:
    """Read where the tables of one source table stand, and list what is new at the source."""
    table = context.table
    bookmarks = {
        BRONZE: context.head(context.bronze).bookmark,
        SILVER: context.head(context.changes, rebuilt=rebuild).bookmark,
        **{
            table.mart_name(mart): context.head(context.mart_path(mart), rebuilt=rebuild).bookmark
            for mart in table.marts
        },
    }
    ledger = read_ledger(context)
    rows = {
        table.mart_name(mart): int(context.head(context.mart_path(mart)).summary.get("total-records", 0))
        for mart in table.marts
    }
    return table_state(table, bookmarks, offer(table, context.pipeline.folder, ledger), rows)


def read_gold(spark: SparkSession, pipeline: Pipeline) -> dict[str, Mapping[str, int]]:
    """Read which batches of which marts the aggregates were computed from."""
    space = pipeline.lake.namespaces.gold
    bookmarks = {gold.name: head(spark, quote(CATALOG, space, gold.name)).bookmark for gold in pipeline.gold}
    return gold_state(pipeline, bookmarks)
