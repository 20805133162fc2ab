"""Read where a lake stands and what its sources offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.catalog.warehouse import verify_catalog
from frazil.iceberg.clock import day_of_horizon, today
from frazil.lake.heads import head
from frazil.plan.state import TableState, gold_state, moved_marts, table_state, with_altered, with_fold
from frazil.plan.tables.layout import BRONZE, QUARANTINE, SILVER
from frazil.runner.batch.expressions import check_expressions
from frazil.runner.batch.ledger import read_ledger
from frazil.runner.limits.rules import check_rules
from frazil.sources.base import SourceDelta
from frazil.sources.kinds import source_of
from frazil.spec.sql.names import quote
from frazil.spec.tables import gold_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import SparkSession

    from frazil.runner.table_run import TableRun
    from frazil.spec import Gold, Pipeline


def read_state(context: TableRun, *, rebuild: bool, with_source: bool = True) -> TableState:
    """Read where the tables of one source table stand, and list what is new at the source if that is asked for.

    Raises:
        HistoryChangedError: the catalog does not know what the warehouse holds, a bookmark is lost, or a known file has
            other content.
        SourceError: a landing folder is missing.
        FrazilError: what is declared does not go with what there is, see :func:`frazil.plan.state.table_state`.
    """
    table = context.table
    bronze = context.head(context.bronze)
    if bronze.location is not None or bronze.snapshot_id is None:
        verify_catalog(context.pipeline, table, bronze.location)
    marts = {table.mart_name(mart): context.head(context.mart_path(mart), rebuilt=rebuild) for mart in table.marts}
    stands = {
        BRONZE: context.head(context.bronze),
        SILVER: context.head(context.changes, rebuilt=rebuild),
        QUARANTINE: context.head(context.quarantine, rebuilt=rebuild),
        **marts,
    }
    bookmarks = {name: at.bookmark for name, at in stands.items()}
    moved_marts(context.pipeline, table, bookmarks)
    taken = source_of(table).find_new(context.pipeline.folder, read_ledger(context)) if with_source else SourceDelta()
    rows = {name: at.records for name, at in (*marts.items(), (QUARANTINE, stands[QUARANTINE]))}
    columns = {name: at.columns for name, at in stands.items()}
    altered = {name: at.altered for name, at in stands.items()}
    found = table_state(context.pipeline, table, bookmarks, taken, rows=rows, columns=columns)
    found = with_altered(found, table, bookmarks, columns, altered)
    day = day_of_horizon(today(), stands[SILVER]) if with_source else None
    return with_fold(found, table, bookmarks, day)


def check_new_expressions(context: TableRun, state: TableState) -> None:
    """Let Spark see a table's expressions, unless it has seen them before over these fields.

    Raises:
        SqlError: Spark refuses one; nothing was written.
    """
    table = context.table
    if SILVER in state.rebuilds or state.silver == 0 or state.fields.keys() - state.seen_fields:
        check_expressions(context.spark, table, dict(state.contract.fields) if state.contract else {})
    if state.contract is not None:
        # Rules that only warn or stop a run come and go without a rebuild.
        check_rules(context.spark, state.contract, table.name)


def read_gold(spark: SparkSession, pipeline: Pipeline, failed: Collection[str]) -> dict[str, Mapping[str, int]]:
    """Read which batches of which marts the aggregates were computed from.

    One that cannot be read counts as never computed: refreshing it tells why, and stops no other. Those that have
    ``failed`` as ``gold.<name>`` are not looked at.
    """

    def bookmark(gold: Gold) -> Mapping[str, Any]:
        if f"gold.{gold.name}" in failed:
            return {}
        try:
            return head(spark, quote(*gold_table(pipeline, gold).path)).bookmark
        except Exception:  # noqa: BLE001 - whatever it is, it is this aggregate's
            return {}

    return gold_state(pipeline, {gold.name: bookmark(gold) for gold in pipeline.gold})
