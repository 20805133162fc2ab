"""Records and ledger of a bronze table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.older_spark import to_arrow
from frazil.silver.changes import rows_of_batches
from frazil.sources.ledger import LEDGER_FIELDS, Ledger
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import Normalize

IS_RECORD: Final = f"{r.KIND} IN ({literal(r.RECORD)}, {literal(r.BAD)}, {literal(r.CORRECTED)})"
IS_CORRECTED: Final = f"{r.KIND} = {literal(r.CORRECTED)}"
_LEDGER_COLUMNS: Final = (r.FILE, r.POSITION, r.BATCH, r.LEDGER)
_known_ledgers: Final[dict[tuple[str, ...], tuple[int | None, Ledger]]] = {}
"""Ledgers by the path of their table, each with the snapshot it was read at.

A snapshot never changes: a ledger read at the table's newest snapshot is complete. With any other snapshot, such as one
of another lake's table of the same name, the ledger is read again.
"""


def bronze_records(context: TableRun, step: Normalize, bookmark: Mapping[str, Any]) -> DataFrame:
    """Return the records of a step's batches; a correction replaces the original record.

    In a rebuild, a file with several names takes the position of its first name.

    Args:
        context: the table's part of the run.
        step: the batches.
        bookmark: bookmark of bronze.
    """
    bronze = context.spark.table(quote(*context.bronze))
    if not bookmark.get("lists", True):
        # Without the list column, Spark reads files by column and not by row.
        bronze = bronze.withColumn(r.KNOWN, F.expr("CAST(NULL AS array<string>)"))
    records = bronze.where(IS_RECORD)
    if corrections_after(bookmark, 0 if step.rebuild else step.after):
        newest = bronze.where(IS_CORRECTED).groupBy(r.FILE, r.ROW).agg(F.max(r.BATCH).alias("_newest"))
        counts = F.coalesce(F.col("_newest"), F.col(r.BATCH)) == F.col(r.BATCH)
        records = records.join(F.broadcast(newest), [r.FILE, r.ROW], "left").where(counts).drop("_newest")
    if not step.rebuild:
        return rows_of_batches(records, step.after, step.upto)
    ledger = bronze.where(F.col(r.KIND) == r.LEDGER_ROW)
    first = (
        ledger.where(F.col(f"{r.LEDGER}.same_as").isNotNull())
        .groupBy(F.col(f"{r.LEDGER}.same_as").alias(r.FILE))
        .agg(F.min(r.POSITION).alias("_first"))
        .join(ledger.select(r.FILE, F.col(r.POSITION).alias("_own")), r.FILE)
    )
    placed = records.join(F.broadcast(first), r.FILE, "left")
    # A record with its own change sequence keeps its position, whatever its file's name.
    moves = F.col(r.POSITION) == F.col("_own")
    position = F.when(moves, F.least(r.POSITION, "_first")).otherwise(F.col(r.POSITION))
    return placed.withColumn(r.POSITION, position).drop("_first", "_own")


def corrections_after(bookmark: Mapping[str, Any], batch: int) -> list[int]:
    """Return the batches of corrections after ``batch``. Only they replace records of later batches.

    Args:
        bookmark: bookmark of bronze.
        batch: last batch before the records.
    """
    return [number for number in bookmark.get("corrections", ()) if number > batch]


def columns_since(contract: Contract, bookmark: Mapping[str, Any]) -> dict[str, int]:
    """Return column -> batch that introduced it, for columns added after the table's first batch."""
    arrived = {name.lower(): batch for name, batch in bookmark.get("since", {}).items()}
    since = {
        column.name: max((arrived.get(field, 0) for field in contract.needs(column)), default=0)
        for column in contract.columns
    }
    return {name: batch for name, batch in since.items() if batch}


def read_ledger(context: TableRun) -> Ledger:
    """Return the files that bronze knows.

    Cost: one Spark job over the ledger's rows; free while only runs of this process write to the table.
    """
    path, at = context.bronze, context.head(context.bronze).snapshot_id
    if at is None:
        return Ledger()
    snapshot, ledger = _known_ledgers.get(path, (None, Ledger()))
    if snapshot != at:
        ledger = _read_all(context)
        _known_ledgers[path] = at, ledger
    return ledger


def keep_ledger(context: TableRun, before: TableSnapshot, rows: Iterable[pa.Table]) -> None:
    """Add the files of a published batch to the cached ledger.

    Args:
        context: the table's part of the run.
        before: snapshot of bronze before the batch.
        rows: rows of the batch; other rows than those of the ledger are ignored.
    """
    snapshot, ledger = _known_ledgers.pop(context.bronze, (None, Ledger()))
    if snapshot == before.snapshot_id:
        for some in rows:
            ledger.add(_ledger_lines(some.filter(pc.equal(some[r.KIND], r.LEDGER_ROW))))
        _known_ledgers[context.bronze] = context.head(context.bronze).snapshot_id, ledger


def _read_all(context: TableRun) -> Ledger:
    rows = context.spark.table(quote(*context.bronze)).where(f"{r.KIND} = {literal(r.LEDGER_ROW)}")
    return Ledger.of(_ledger_lines(to_arrow(rows.select(*_LEDGER_COLUMNS))))


def _ledger_lines(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    told = rows[r.LEDGER].combine_chunks()
    columns = [*(rows[name] for name in _LEDGER_COLUMNS[:-1]), *(pc.struct_field(told, name) for name in LEDGER_FIELDS)]
    return zip(*(column.to_pylist() for column in columns), strict=True)
