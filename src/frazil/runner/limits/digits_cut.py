"""Digits of timestamps beyond microseconds, which a table's first run says that it cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from frazil.older_spark import to_arrow
from frazil.runner.batch.bronze_records import bronze_records
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.steps import Normalize

CODE: Final = "FZ414"
_BEYOND: Final = r"\.[0-9]{6}[0-9]*[1-9]"
_SAMPLE_RECORDS: Final = 10_000


def digits_cut(
    context: TableRun, contract: Contract, step: Normalize, bronze: Mapping[str, object], at_hand: pa.Table | None
) -> list[str]:
    """Return a sentence on the columns whose digits are cut, where the declaration does not say what becomes of them.

    Args:
        context: the table's part of the run.
        contract: the table's.
        step: which batches.
        bronze: bookmark of bronze.
        at_hand: the records, where they are in the driver's memory; else some of them are read.

    Cost: without records at hand a small Spark job, for a table with timestamps.
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
