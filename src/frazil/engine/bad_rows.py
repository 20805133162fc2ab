"""How many records of a batch may be bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.silver.changes import PROBLEM
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.engine.table_run import TableRun


class TooManyBadRowsError(ContractError):
    """A batch has more bad records than the table's limit."""

    code = "FZ401"


def bad_by_batch(context: TableRun, rows: DataFrame) -> dict[int, dict[str, int]]:
    """Count good and bad records of every batch, if the table has limits: they are a batch's, a rebuild takes many."""
    if context.table.max_bad_rows is None and context.table.max_bad_fraction is None:
        return {}
    is_good = F.col(PROBLEM).isNull()
    counted = rows.groupBy(r.BATCH).agg(F.count_if(is_good).alias("good"), F.count_if(~is_good).alias("bad"))
    return {row[r.BATCH]: {"good": row["good"], "bad": row["bad"]} for row in counted.collect()}


def check_limits(context: TableRun, by_batch: Mapping[int, Mapping[str, Any]]) -> None:
    """Refuse more bad records than the table allows; ``by_batch``: good and bad records by batch number."""
    table = context.table
    for number, seen in by_batch.items():
        bad = int(seen["bad"])
        total = bad + int(seen["good"])
        over_rows = table.max_bad_rows is not None and bad > table.max_bad_rows
        over_fraction = table.max_bad_fraction is not None and bad > table.max_bad_fraction * total
        if over_rows or over_fraction:
            limit = f"max_bad_rows {table.max_bad_rows}" if over_rows else f"max_bad_fraction {table.max_bad_fraction}"
            raise TooManyBadRowsError(
                f"table {table.name!r}: {bad:,} of {counted(total, 'record')} of batch {number} "
                f"{'is' if bad == 1 else 'are'} bad, {limit} allows fewer; "
                "they are in bronze, nothing of the batch is visible past it",
                hint="look at them in bronze, fix the declaration or raise the limit, and run again",
            )
