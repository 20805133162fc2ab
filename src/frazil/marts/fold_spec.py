"""What a fold is given of a table: names, order, and since when a column exists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame

EVENT_TIME: Final = "_cdc_event_time"
"""Column of change rows, beside those of silver, while they are folded."""

IS_UPSERT: Final = f"{r.CLASS} = '{r.UPSERT}'"
"""SQL that tells of a change row that it brings values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldSpec:
    """The table's columns and their parts.

    Attributes:
        keys: columns that name a row.
        sequence_by: columns that order the changes of a key.
        columns: all columns of the contract, in table order.
        types: column -> type.
        event_times: columns with the event time, the first that is not NULL counts; none where the table has no times.
        tracked: columns whose change opens a version of history.
        since: column -> first batch it was known in, for columns that came later than the table.
        partial: some changes of the table do not carry every column, so values come from older ones.
        apart: further columns of the changes: those of a key that differ in them are folded by themselves.
        snapshot_places: LIKE pattern of the positions of rows behind a snapshot's own truncate; None for none.
    """

    keys: tuple[str, ...]
    sequence_by: tuple[str, ...]
    columns: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    event_times: tuple[str, ...] = ()
    tracked: tuple[str, ...] = ()
    since: Mapping[str, int] = field(default_factory=dict)
    partial: bool = False
    apart: tuple[str, ...] = ()
    snapshot_places: str | None = None

    @property
    def together(self) -> tuple[str, ...]:
        """Columns in which changes are equal that are folded together."""
        return (*self.keys, *self.apart)

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Columns that tell how new a row of a mart or a change is."""
        return (*self.sequence_by, r.POSITION, r.ROW)

    @property
    def fills(self) -> bool:
        """Some changes may not carry every column, so values come from older ones."""
        return self.partial or bool(self.since)

    @property
    def times_follow_order(self) -> bool:
        """Event times can never run against the order: they are its first part."""
        return bool(self.sequence_by) and self.event_times[:1] == self.sequence_by[:1]


def told_time(spec: FoldSpec, prefix: str = "") -> str:
    """Write the event time that a row's own columns tell, optionally out of the struct or alias ``prefix``."""
    names = (quote(prefix, name) if prefix else quote(name) for name in spec.event_times)
    return f"coalesce({', '.join([*(f'CAST({name} AS timestamp)' for name in names), 'CAST(NULL AS timestamp)'])})"


def time_of_delete(told: str, prefix: str = "") -> str:
    """Write when a row was deleted (HISTORY): a delete repeats the row's event time unless it has one of its own.

    Args:
        told: SQL of the event time that the row's newest upsert tells; NULL for none.
        prefix: struct or alias with the delete's ``_cdc_event_time`` and ``_cdc_source_time``.
    """
    declared, source = (f"{prefix}.{name}" if prefix else name for name in (EVENT_TIME, r.SOURCE_TIME))
    own = f"{told} IS NULL OR {declared} > {told}"
    return f"CASE WHEN {own} THEN coalesce({declared}, {source}) ELSE greatest({source}, {told}) END"


def columns_of(names: Iterable[str], prefix: str = "") -> str:
    """Write columns as a SELECT list, each name taken literally, optionally out of the struct or alias ``prefix``."""
    if not prefix:
        return ", ".join(map(quote, names))
    return ", ".join(f"{quote(prefix, name)} AS {quote(name)}" for name in names)


def same(names: Iterable[str], one: str, other: str) -> str:
    """Write the condition that two aliases have equal columns; a NULL equals nothing."""
    return " AND ".join(f"{quote(one, name)} = {quote(other, name)}" for name in names)


def order(spec: FoldSpec) -> str:
    """Write the order of a change: sequence, position, upsert after delete, content. Greater is newer; total."""
    content = f"xxhash64({columns_of(spec.columns)}) AS _cdc_content"
    return f"struct({columns_of(spec.order_columns)}, {IS_UPSERT} AS _cdc_upsert, {content})"


def with_event_time(rows: DataFrame, spec: FoldSpec, *also: str) -> DataFrame:
    """Add the event time to rows: a timestamp, NULL where the table has no times. Then ``also``, as SQL."""
    return rows.selectExpr("*", f"{told_time(spec)} AS {EVENT_TIME}", *also)
