"""HANDOVER: refuse a snapshot that would delete more rows than ``max_delete_fraction`` allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from frazil.bronze import record as r
from frazil.sources.capture import verify_deletes
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Collection

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract

Place: TypeAlias = tuple[str, int]

_HINT: Final = (
    "is it whole, and of the right table? If so, raise max_delete_fraction in the source, run again, and set it back; "
    "if not, name it in leave_out of the source, and run again"
)


def verify_snapshots(
    context: TableRun, contract: Contract, new: Collection[Place], every: Collection[Place], changes: str
) -> None:
    """Refuse a snapshot that would delete more rows than the declaration allows.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        new: places of the truncates of this batch. A truncate without a copy of the table after it has no limit.
        every: places of all truncates.
        changes: SELECT of keys, ``_place`` and class of all changes.

    Raises:
        TooManyDeletesError: a snapshot exceeds the limit.

    Cost: for each snapshot one Spark job over the keys of silver.
    """
    source = context.table.source
    for one in new:
        limit = source.delete_limit(one[0])
        if limit is None:
            continue
        since = max((other for other in every if other < one), default=None)
        keys = ", ".join(map(quote, contract.keys))
        is_upsert = f"{r.CLASS} = {literal(r.UPSERT)}"
        is_living = "coalesce(_last._is_upsert, false)"
        if since is not None:
            # Older changes are already void.
            is_living += f" AND _last._place > {place_sql(*since)}"
        is_gone = f"{is_living} AND NOT _stays"
        seen = context.spark.sql(f"""SELECT count_if({is_living}) AS living, count_if({is_gone}) AS gone
            FROM (SELECT max(CASE WHEN _place < {place_sql(*one)}
                    THEN struct(_place, {is_upsert} AS _is_upsert) END) AS _last,
                bool_or({is_upsert} AND _place.{r.POSITION} = {literal(one[0])}) AS _stays
                FROM ({changes}) GROUP BY {keys})""").first()
        if seen is not None:
            snapshot = f"table {context.table.name!r}: snapshot {one[0].rpartition('/')[2]}"
            verify_deletes(snapshot, seen["living"], seen["gone"], limit, of="the table at that time", hint=_HINT)


def place_sql(position: str, row: int) -> str:
    """Return SQL for the place of a change: a struct whose order is the order of places."""
    return f"struct({literal(position)} AS {r.POSITION}, CAST({int(row)} AS bigint) AS {r.ROW})"
