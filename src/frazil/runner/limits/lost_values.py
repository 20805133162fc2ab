"""Explain values that silver lacks: undeclared JSON fields, cut digits, and fields of unreadable files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.older_spark import to_arrow
from frazil.runner.batch.bronze_records import bronze_records
from frazil.silver.cast import field_left_out
from frazil.silver.contract import MissingFieldError
from frazil.spec.amount import counted
from frazil.spec.model.types import STRUCT
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, Row

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import Normalize

CODE: Final = "FZ414"
_BEYOND: Final = r"\.[0-9]{6}[0-9]*[1-9]"
_SAMPLE_RECORDS: Final = 10_000
_SHOWN: Final = 3


def digits_cut(
    context: TableRun, contract: Contract, step: Normalize, bronze: Mapping[str, object], at_hand: pa.Table | None
) -> list[str]:
    """Return a warning about timestamps with truncated digits, if ``beyond_microseconds`` is not declared.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        step: the batches.
        bronze: bookmark of bronze.
        at_hand: the records if they are in the driver's memory; None reads a sample.

    Returns:
        One warning, or none.

    Cost: for a table with timestamps a small Spark job, or none if the records are in memory.
    """
    fields = {name.lower(): name for name, _ in contract.fields}
    times = {
        column.name: fields[column.name.lower()]
        for column in contract.columns
        if column.type.startswith("timestamp") and column.expr is None and column.name.lower() in fields
    }
    if context.table.beyond_microseconds is not None or not times:
        return []
    if at_hand is None:
        some = bronze_records(context, step, bronze).limit(_SAMPLE_RECORDS)
        at_hand = to_arrow(some.select(*(quote(field) for field in times.values() if field in some.columns)))
    cut = [
        name
        for name, field in times.items()
        if field in at_hand.schema.names
        and pc.any(pc.match_substring_regex(at_hand[field], _BEYOND)).as_py()
        and field not in context.table.source.own_fields
    ]
    if not cut:
        return []
    ways = "declare beyond_microseconds: truncate, round, text or quarantine"
    return [f"{CODE}: {', '.join(cut)}: digits beyond microseconds are cut; {ways}"]


def fields_left_out(records: DataFrame, contract: Contract) -> list[str]:
    """Return a warning for each column whose JSON objects have undeclared fields.

    Args:
        records: records of bronze.
        contract: the table's contract.

    Cost: free without a declared struct; else a Spark job that reads the JSON of the records once more.
    """
    fields = {name.lower(): name for name, _ in contract.fields}
    nested = [
        column
        for column in contract.columns
        if column.expr is None and f"{STRUCT}<" in column.type and column.name.lower() in fields
    ]
    if not nested:
        return []
    told = [field_left_out(quote(fields[column.name.lower()]), column.type) for column in nested]
    measured = [f"struct(count({one}) AS records, min({one}) AS field)" for one in told]
    found = records.where(f"{r.KIND} <> {literal(r.BAD)}").selectExpr(*measured).first()
    return [
        f"column {column.name}: {counted(seen['records'], 'record has', 'records have')} a field that its type does "
        f"not name, such as {column.name}{seen['field']}. Bronze keeps it; to have it in the marts, add it to the type"
        for column, seen in zip(nested, found or (), strict=False)
        if seen["records"]
    ]


def missing_field_error(context: TableRun, error: MissingFieldError) -> MissingFieldError:
    """Return the error with the files that could not be read, and the reasons.

    Args:
        context: the table's part of the run.
        error: the error without this detail.

    Cost: one Spark job over the ledger and the bad records.
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
