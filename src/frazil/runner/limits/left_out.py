"""Tell which fields of JSON objects no declared struct names: silver leaves them out, bronze keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.silver.cast import field_left_out
from frazil.spec.amount import counted
from frazil.spec.model.nested import STRUCT
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.silver.contract import Contract


def fields_left_out(records: DataFrame, contract: Contract) -> list[str]:
    """Return a sentence for each column of whose objects a field is left out.

    Args:
        records: of bronze.
        contract: the table's.

    Cost: nothing without a declared struct; with one, a Spark job that reads the JSON of the records once more.
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
