"""Return why files have no fields, where a declared column is a field of none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.silver.contract import MissingFieldError
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import Row

    from frazil.runner.table_run import TableRun

_SHOWN: Final = 3


def explained(context: TableRun, error: MissingFieldError) -> MissingFieldError:
    """Add what bronze knows of the files: which could not be read, and why.

    Cost: one Spark job over the ledger and the bad records, on the way to an error.
    """
    bronze = context.spark.table(quote(*context.bronze))
    line = F.col(r.LEDGER)
    reasons = (
        bronze.where(f"{r.KIND} = {literal(r.BAD)}").groupBy(r.FILE).agg(F.min_by(r.REASON, r.ROW).alias("reason"))
    )
    files = (
        bronze.where(f"{r.KIND} = {literal(r.LEDGER_ROW)}")
        .select(r.FILE, line["columns"]["name"].alias("names"))
        .join(reasons, r.FILE, "left")
        .orderBy(r.FILE)
        .limit(_SHOWN)
        .collect()
    )
    if any(len(file["names"] or ()) > 1 for file in files):
        return error
    told = "; ".join(f"{file[r.FILE]}: {_reason(file)}" for file in files)
    hint = "deliver the files again under other names, in the declared format; frazil status lists those taken"
    return MissingFieldError(f"{error.message}; {told}", hint=hint)


def _reason(file: Row) -> str:
    if names := file["names"]:
        return f"its only field is {names[0]!r}"
    return file["reason"] or "it has no records and no header"
