"""Write the records of a batch that cannot be changes to quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.failpoints import failpoint
from frazil.runner.batch.bronze_records import IS_CORRECTED
from frazil.silver.batches import batches
from frazil.silver.quarantine import quarantined
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.steps import Normalize


def corrected_places(context: TableRun, step: Normalize) -> DataFrame | None:
    """Return the places of records that a step takes corrections of; None where there are none."""
    given = context.head(context.bronze).bookmark.get("corrections", ())
    if not any(step.after < number <= step.upto for number in given):
        return None
    bronze = context.spark.table(quote(*context.bronze)).where(IS_CORRECTED)
    return batches(bronze, step.after, step.upto).select(r.FILE, r.ROW).distinct()


def write_quarantine(context: TableRun, step: Normalize, rows: DataFrame, said: Mapping[str, str]) -> None:
    """Write those of some change rows that have a problem, unless a run that died has done so.

    Args:
        context: the table's part of the run.
        step: which batches.
        rows: change rows, good and bad ones alike.
        said: reason of a problem -> what is told in its place.
    """
    base = context.head(context.quarantine, rebuilt=step.rebuild)
    if base.batch >= step.upto and not step.rebuild:
        return
    with context.transaction(context.quarantine, context.bookmark("quarantine", step.upto)) as batch:
        if step.rebuild:
            batch.replace(quarantined(rows, said))
        else:
            # A run that died after this commit left the quarantine ahead of silver.
            new = quarantined(batches(rows, max(step.after, base.batch), step.upto), said)
            if (corrected := corrected_places(context, step)) is None:
                batch.append(new)
            else:
                kept = context.spark.table(batch.table).join(F.broadcast(corrected), [r.FILE, r.ROW], "left_anti")
                batch.replace(kept.select(new.columns).unionByName(new))
        failpoint("quarantine.before_publish")
        batch.publish()
    failpoint("quarantine.after_publish")
