"""The records of bronze that changes are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.silver.batches import batches
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import Normalize

IS_RECORD: Final = f"{r.KIND} IN ({literal(r.RECORD)}, {literal(r.BAD)}, {literal(r.CORRECTED)})"
IS_CORRECTED: Final = f"{r.KIND} = {literal(r.CORRECTED)}"


def bronze_records(context: TableRun, step: Normalize, bookmark: Mapping[str, Any]) -> DataFrame:
    """Return the records of a step's batches, a corrected one in place of what came.

    In a rebuild a file known under several names stands where the first of them stands.
    """
    bronze = context.spark.table(quote(*context.bronze))
    if not bookmark.get("lists", True):
        # Without a column that is a list, files are read by the column and not by the row.
        bronze = bronze.withColumn(r.KNOWN, F.expr("CAST(NULL AS array<string>)"))
    records = bronze.where(IS_RECORD)
    if bookmark.get("corrections"):
        newest = bronze.where(IS_CORRECTED).groupBy(r.FILE, r.ROW).agg(F.max(r.BATCH).alias("_newest"))
        counts = F.coalesce(F.col("_newest"), F.col(r.BATCH)) == F.col(r.BATCH)
        records = records.join(F.broadcast(newest), [r.FILE, r.ROW], "left").where(counts).drop("_newest")
    if not step.rebuild:
        return batches(records, step.after, step.upto)
    ledger = bronze.where(F.col(r.KIND) == r.LEDGER_ROW)
    first = (
        ledger.where(F.col(f"{r.LEDGER}.same_as").isNotNull())
        .groupBy(F.col(f"{r.LEDGER}.same_as").alias(r.FILE))
        .agg(F.min(r.POSITION).alias("_first"))
        .join(ledger.select(r.FILE, F.col(r.POSITION).alias("_own")), r.FILE)
    )
    placed = records.join(F.broadcast(first), r.FILE, "left")
    # A record with a change sequence of its own stands there whatever its file is called.
    moves = F.col(r.POSITION) == F.col("_own")
    position = F.when(moves, F.least(r.POSITION, "_first")).otherwise(F.col(r.POSITION))
    return placed.withColumn(r.POSITION, position).drop("_first", "_own")


def columns_since(contract: Contract, bookmark: Mapping[str, Any]) -> dict[str, int]:
    """Return the batch that a column came with, of those that came later than the table; from bronze's bookmark."""
    arrived = {name.lower(): batch for name, batch in bookmark.get("since", {}).items()}
    since = {
        column.name: max((arrived.get(field, 0) for field in contract.needs(column)), default=0)
        for column in contract.columns
    }
    return {name: batch for name, batch in since.items() if batch}
