"""Limit the bad records of a batch, and write them to quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import ContractError
from frazil.failpoints import failpoint
from frazil.runner.batch.bronze_records import IS_CORRECTED
from frazil.silver.batches import rows_of_batches
from frazil.silver.changes import PROBLEM
from frazil.silver.quarantine import quarantined
from frazil.spec.amount import counted
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.spec import Table
    from frazil.steps import Normalize

USUAL_FRACTION: Final = 0.1
"""Share of bad records in a batch that is allowed without ``max_bad_fraction``."""
FEWEST_RECORDS: Final = 100
"""Smaller batches have no default limit, unless all records so far are bad."""
_NEVER_TOO_MANY: Final = int(USUAL_FRACTION * FEWEST_RECORDS)
_REASONS_SHOWN: Final = 3


class TooManyBadRowsError(ContractError):
    """A batch has more bad records than the table's limit."""

    code = "FZ401"


def bad_by_batch(context: TableRun, rows: DataFrame, bad: int) -> dict[int, dict[str, int]]:
    """Count good and bad records of every batch of a rebuild.

    Args:
        context: the table's part of the run.
        rows: change rows of all batches.
        bad: total number of bad records.

    Returns:
        Batch -> {"good": n, "bad": n}; empty if the total is within the limit of every single batch.
    """
    table = context.table
    if not bad or (table.max_bad_rows is None and table.max_bad_fraction is None and bad <= _NEVER_TOO_MANY):
        return {}
    is_good = F.col(PROBLEM).isNull()
    counted = rows.groupBy(r.BATCH).agg(F.count_if(is_good).alias("good"), F.count_if(~is_good).alias("bad"))
    return {row[r.BATCH]: {"good": row["good"], "bad": row["bad"]} for row in counted.collect()}


def check_limits(
    context: TableRun, by_batch: Mapping[int, Mapping[str, Any]], rows: DataFrame | None, *, is_first: bool
) -> None:
    """Refuse more bad records than the table allows, and by default a table without good records.

    Args:
        context: the table's part of the run.
        by_batch: good and bad records by batch number.
        is_first: the batches have all records of the table so far.
        rows: change rows, including bad ones, to list the reasons in the error; None to omit the reasons.

    Raises:
        TooManyBadRowsError: a batch exceeds its limit.
    """
    table = context.table
    has_none = is_first and not any(seen["good"] for seen in by_batch.values())
    for number, seen in by_batch.items():
        bad = int(seen["bad"])
        total = bad + int(seen["good"])
        over_rows = table.max_bad_rows is not None and bad > table.max_bad_rows
        share = table.max_bad_fraction
        if share is None:
            share = USUAL_FRACTION if total >= FEWEST_RECORDS or has_none else 1.0
        if over_rows or bad > share * total:
            limit = f"max_bad_rows {table.max_bad_rows}" if over_rows else f"max_bad_fraction {share:g}"
            raise TooManyBadRowsError(
                f"table {table.name!r}: {bad:,} of {counted(total, 'record')} of batch {number} "
                f"{'is' if bad == 1 else 'are'} bad, {limit} allows fewer; "
                f"they are in bronze, nothing of the batch is visible past it{_why(rows)}",
                hint=_hint(table),
            )


def _hint(table: Table) -> str:
    ways = ["give the column a type that its values have, or string", "correct the rule"]
    if table.source.kind == "dms":
        ways.append("say kind: snapshot where the files are whole copies of the table, without an op")
        if table.source.format == "csv" and not table.source.header:
            ways.append("name in other_fields what files have from before or after a column was added or dropped")
    if table.source.kind == "debezium":
        ways.append("declare the encodings of fields that come without a schema")
    return f"{', '.join(ways)}, or raise the limit; and run again"


def _why(rows: DataFrame | None) -> str:
    """Return the most frequent reasons with the number of records of each."""
    if rows is None:
        return ""
    reason = F.concat_ws(": ", F.col(f"{PROBLEM}.column"), F.col(f"{PROBLEM}.reason"))
    bad = rows.where(F.col(PROBLEM).isNotNull()).groupBy(F.col(f"{PROBLEM}.rule").alias("rule"), f"{PROBLEM}.column")
    found = bad.agg(F.count("*").alias("count"), F.min(reason).alias("reason"))
    most = found.orderBy(F.desc("count"), "reason").limit(_REASONS_SHOWN).collect()
    return "".join(f"; {row['count']:,} with {row['reason']}" for row in most)


def corrected_places(context: TableRun, step: Normalize) -> DataFrame | None:
    """Return the places of records that a step's batches correct; None without corrections."""
    given = context.head(context.bronze).bookmark.get("corrections", ())
    if not any(step.after < number <= step.upto for number in given):
        return None
    bronze = context.spark.table(quote(*context.bronze)).where(IS_CORRECTED)
    return rows_of_batches(bronze, step.after, step.upto).select(r.FILE, r.ROW).distinct()


def write_quarantine(context: TableRun, step: Normalize, rows: DataFrame, said: Mapping[str, str]) -> None:
    """Write the change rows that have a problem to quarantine; idempotent after a killed run.

    Args:
        context: the table's part of the run.
        step: the batches.
        rows: change rows, good and bad ones.
        said: reason of a problem -> text to store instead.
    """
    base = context.head(context.quarantine, rebuilt=step.rebuild)
    if base.batch >= step.upto and not step.rebuild:
        return
    with context.transaction(context.quarantine, context.bookmark("quarantine", step.upto)) as batch:
        if step.rebuild:
            batch.replace(quarantined(rows, said))
        else:
            # A run killed after this commit leaves quarantine ahead of silver.
            new = quarantined(rows_of_batches(rows, max(step.after, base.batch), step.upto), said)
            if (corrected := corrected_places(context, step)) is None:
                batch.append(new)
            else:
                kept = context.spark.table(batch.table).join(F.broadcast(corrected), [r.FILE, r.ROW], "left_anti")
                batch.replace(kept.select(new.columns).unionByName(new))
        failpoint("quarantine.before_publish")
        batch.publish()
    failpoint("quarantine.after_publish")
