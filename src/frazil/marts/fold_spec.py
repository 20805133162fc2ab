"""The parts of a table that a fold needs: names, order, and the first batch of columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame

EVENT_TIME: Final = "_cdc_event_time"
"""Column that a fold adds to the change rows of silver."""

IS_UPSERT: Final = f"{r.CLASS} = '{r.UPSERT}'"
"""SQL condition of an upsert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldSpec:
    """The table's columns and their parts.

    Attributes:
        keys: columns that name a row.
        sequence_by: columns that order the changes of a key.
        columns: all columns of the contract, in table order.
        types: column -> type.
        event_times: columns with the event time; the first that is not NULL counts. Empty for a table without times.
        tracked: columns whose change opens a version of history.
        since: column -> its first batch, for columns that are newer than the table.
        partial: some changes do not carry every column, so values come from older ones.
        apart: further columns of the changes; changes of a key that differ in them are folded separately.
        snapshot_places: LIKE pattern of the positions of rows after a snapshot's own truncate, or None.
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
        """Return the columns that define the groups of changes to fold."""
        return (*self.keys, *self.apart)

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Return the columns that order the rows of a mart or the changes of a key."""
        return (*self.sequence_by, r.POSITION, r.ROW)

    @property
    def fills(self) -> bool:
        """Return whether some changes may not carry every column, so that values come from older ones."""
        return self.partial or bool(self.since)

    @property
    def times_follow_order(self) -> bool:
        """Return whether event times are the first part of the order, so that they cannot run against it."""
        return bool(self.sequence_by) and self.event_times[:1] == self.sequence_by[:1]


def told_time(spec: FoldSpec, prefix: str = "") -> str:
    """Write the event time from a row's own columns, optionally of the struct or alias ``prefix``."""
    names = (quote(prefix, name) if prefix else quote(name) for name in spec.event_times)
    return f"coalesce({', '.join([*(f'CAST({name} AS timestamp)' for name in names), 'CAST(NULL AS timestamp)'])})"


def time_of_delete(told: str, prefix: str = "") -> str:
    """Write the time when a row was deleted (HISTORY): a delete repeats the row's event time unless it has its own.

    Args:
        told: SQL of the event time of the row's newest upsert; may be NULL.
        prefix: struct or alias with the delete's ``_cdc_event_time`` and ``_cdc_source_time``.
    """
    declared, source = (f"{prefix}.{name}" if prefix else name for name in (EVENT_TIME, r.SOURCE_TIME))
    own = f"{told} IS NULL OR {declared} > {told}"
    return f"CASE WHEN {own} THEN coalesce({declared}, {source}) ELSE greatest({source}, {told}) END"


def columns_of(names: Iterable[str], prefix: str = "") -> str:
    """Write columns as a SELECT list with quoted names, optionally of the struct or alias ``prefix``."""
    if not prefix:
        return ", ".join(map(quote, names))
    return ", ".join(f"{quote(prefix, name)} AS {quote(name)}" for name in names)


def same(names: Iterable[str], one: str, other: str) -> str:
    """Write the condition that two aliases have equal columns; NULL equals nothing.

    Args:
        names: the columns.
        one: an alias.
        other: the other alias.
    """
    return " AND ".join(f"{quote(one, name)} = {quote(other, name)}" for name in names)


def order(spec: FoldSpec) -> str:
    """Write the total order of changes: sequence, position, upsert after delete, content, source's time.

    Greater is newer; NULL is the least.
    """
    content = f"xxhash64({columns_of(spec.columns)}) AS _cdc_content"
    return f"struct({columns_of(spec.order_columns)}, {IS_UPSERT} AS _cdc_upsert, {content}, {r.SOURCE_TIME})"


def with_event_time(rows: DataFrame, spec: FoldSpec, *also: str) -> DataFrame:
    """Add the event time to rows.

    Args:
        rows: rows with the contract's columns.
        spec: the table's parts; without event times the column is NULL.
        also: SQL of further columns.
    """
    return rows.selectExpr("*", f"{told_time(spec)} AS {EVENT_TIME}", *also)
