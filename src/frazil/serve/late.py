"""Lateness of the changes of a table: changes by the day of the event and the day of arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.catalog.trouble import translated
from frazil.duck import connect
from frazil.serve.check.fold import time_of
from frazil.serve.layers import layers
from frazil.serve.tables import tables, verify_manifests
from frazil.spec.sql.select import source_table

if TYPE_CHECKING:
    import datetime as dt

    from frazil.spec import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class LateCell:
    """Changes of one day that arrived on one day.

    Attributes:
        event_day: day of the changes' event time in UTC; None if they have none.
        arrival_day: day when the last file of their batch was ingested, in UTC.
        changes: number of changes.
    """

    event_day: dt.date | None
    arrival_day: dt.date
    changes: int


def late_changes(pipeline: Pipeline, table: str) -> tuple[LateCell, ...]:
    """Return the changes of a table by day of event and day of arrival, in the order of both.

    Args:
        pipeline: the declaration.
        table: the source table, or one of its marts.

    Raises:
        UnknownSelectionError: the table does not exist.
        NoLakeError: no table of the lake exists.
        DamagedTableError: a file of bronze or silver is missing or damaged.

    Cost: one scan of the event time in silver, and one of the ledger of files.
    """
    declared = source_table(pipeline, table)
    located = tables(pipeline)
    with translated(pipeline), connect(located) as duck:
        here = layers(pipeline, declared, located)
        if not here.changes.exists or not here.bronze.exists:
            return ()
        for layer in (here.bronze, here.changes):
            verify_manifests(layer.location or "")
        has_source = r.SOURCE_TIME in here.changes.snapshot.columns
        time = f"coalesce({time_of(here)}, {r.SOURCE_TIME})" if has_source else time_of(here)
        found = duck.execute(
            f"WITH arrived AS (SELECT {r.BATCH} AS batch, CAST(max({r.ARRIVED_AT}) AS DATE) AS day "
            f"FROM {here.bronze.rows} WHERE {r.KIND} = '{r.LEDGER_ROW}' GROUP BY {r.BATCH}) "
            f"SELECT CAST({time} AS DATE), arrived.day, count(*) FROM {here.changes.rows} AS changes "
            f"JOIN arrived ON changes.{r.BATCH} = arrived.batch GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    return tuple(LateCell(event_day=event, arrival_day=arrival, changes=count) for event, arrival, count in found)
