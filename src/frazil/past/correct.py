"""Append corrected records to bronze, each with the place of the record it corrects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.bronze.pii import treatment_of, verify_key
from frazil.bronze.read import Batch, corrected_rows
from frazil.errors import ContractError
from frazil.failpoints import failpoint
from frazil.runner.batch.driver_batch import spark_frame
from frazil.runner.batch.erased import erased_keys, without_erased
from frazil.runner.sessions import table_session
from frazil.sources.kinds import source_of
from frazil.spec.sql.names import literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from frazil.bronze.read import Correction
    from frazil.spec import Pipeline, Table


class ErasedKeyError(ContractError):
    """A corrected record has a key that was erased."""

    code = "FZ406"

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {table!r}: a corrected record has a key that was erased; no correction was taken",
            hint="leave the record out; or let the key come again: frazil erase --unblock",
        )


def correct(pipeline: Pipeline, table: Table, corrections: Sequence[Correction], spark: SparkSession) -> int:
    """Append corrections to bronze as a separate batch; the next run uses them instead of the original records.

    Args:
        pipeline: the declaration.
        table: one of its tables; its silver must be up to date with bronze.
        corrections: of records in its quarantine.
        spark: a session with the lake.

    Returns:
        The number of the batch.

    Raises:
        BusyError: another run holds the pipeline for more than a minute, or wrote bronze meanwhile.
        ErasedKeyError: a key was erased.
    """
    with table_session(pipeline, table, spark) as context:
        base = context.head(context.bronze)
        columns, number = tuple(base.bookmark["fields"]), base.batch + 1
        treatment = treatment_of(pipeline, table)
        verify_key(table, base.bookmark, treatment)
        rows = corrected_rows(
            corrections, Batch(source=source_of(table), columns=columns, number=number, arrived_at=context.now)
        )
        rows = rows if treatment is None else treatment.treated(rows, again=True)
        bookmark = {
            **base.bookmark,
            "batch": number,
            "lists": base.bookmark.get("lists", True) or bool(len(rows) - rows[r.KNOWN].null_count),
            "corrections": [*base.bookmark.get("corrections", ()), number],
        }
        erased = erased_keys(context)
        if erased is not None:
            emptied = without_erased(context, spark_frame(context.spark, rows), bookmark, erased)
            if emptied.where(f"{r.KIND} = {literal(r.ERASED)}").count():
                raise ErasedKeyError(table.name)
        with context.transaction(context.bronze, bookmark) as batch:
            batch.note(strategy="replay", corrections=len(corrections))
            if batch.takes_rows:
                batch.row_delta(rows)
            else:
                batch.append(spark_frame(context.spark, rows))
            failpoint("replay.before_publish")
            batch.publish()
        failpoint("replay.after_publish")
    return number
