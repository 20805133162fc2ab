"""LOUD: warn of a new snapshot whose end no record marks, because rows that it lacks stay in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.runner.batch.bronze_records import bronze_records
from frazil.runner.batch.driver_batch import spark_frame
from frazil.sources.kinds import source_of
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import Normalize

CODE: Final = "FZ418"


def unended_snapshots(context: TableRun, contract: Contract, step: Normalize, at_hand: pa.Table | None) -> list[str]:
    """Return a warning about reads of a snapshot after other changes, if no record marks the end of a snapshot.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        step: the batches.
        at_hand: the records if they are in the driver's memory; None reads bronze.

    Returns:
        One warning, or none.

    Cost: free for sources whose records mark the end, in a rebuild, and for records in memory without a read. Otherwise
        a Spark job over the records, and for reads one over the positions of silver.
    """
    fields = {name.lower(): name for name, _ in contract.fields}
    load = source_of(context.table).meaning(fields, r.POSITION).load
    silver = context.head(context.changes)
    if load is None or load.ends or step.rebuild or silver.snapshot_id is None:
        return []
    if at_hand is None:
        rows = bronze_records(context, step, context.head(context.bronze).bookmark)
    elif (
        load.operation in at_hand.column_names
        and pc.any(pc.is_in(at_hand[load.operation], pa.array(load.reads))).as_py()
    ):
        rows = spark_frame(context.spark, at_hand)
    else:
        return []
    is_read = f"{quote(load.operation)} IN ({', '.join(map(literal, load.reads))})"
    (newest,) = rows.where(is_read).agg(F.max(F.expr(load.name))).collect()[0]
    if newest is None:
        return []
    before = context.spark.table(quote(*context.changes)).where(f"{r.POSITION} < {literal(newest)}")
    if before.isEmpty():
        return []
    said = (
        f"{CODE}: reads of a snapshot came after other changes, and no record marks its end: rows that it lacks stay. "
        "Flat rows need __snapshot (add.fields), older connectors an upgrade; or say snapshots: partial in the source"
    )
    return [said]
