"""Iceberg layout of marts, and the parts of a table that a fold needs: names, order, first batch of columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.spec import Current, History
from frazil.spec.contract import added_columns
from frazil.spec.model.mart import partition_transform
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from frazil.silver.contract import Contract


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


def mart_columns(mart: Current | History, contract: Contract) -> dict[str, str]:
    """Return a mart's columns with their types."""
    columns = {column.name: column.type for column in contract.columns}
    return columns | added_columns(mart) | {r.POSITION: "string", r.ROW: "bigint"}


def live_columns(mart: Current, columns: Sequence[str]) -> list[str]:
    """Return the columns of a soft mart's live view: all except those about deletes."""
    return [name for name in columns if name not in added_columns(mart)]


def partitioning(mart: Current | History) -> tuple[str, ...]:
    """Return a mart's partition transforms as SQL; history is partitioned by ``is_current`` first.

    A batch of a history reads the current rows only.
    """
    transforms = tuple(partition_transform(text).sql for text in mart.partition_by)
    return ("is_current", *transforms) if isinstance(mart, History) else transforms


def mart_properties(mart: Current | History) -> dict[str, str]:
    """Return a mart's table properties: the declared ones, and those for its own partitions."""
    # With is_current as the only partition, every task has rows of both, and a shuffle would gain nothing.
    here = {} if mart.partition_by else {"write.distribution-mode": "none", "write.spark.fanout.enabled": "true"}
    return {"format-version": str(mart.format_version)} | here | mart.properties


def mart_layout(mart: Current | History) -> dict[str, Any]:
    """Return the layout of a mart's table as plain values; a bookmark keeps it to detect changes."""
    return {
        "partition_by": [*partitioning(mart)],
        "sort_by": [*mart.sort_by],
        "format_version": mart.format_version,
        "properties": dict(mart.properties),
        "live_view": mart.live_view if isinstance(mart, Current) else None,
    }


def fold_spec(
    contract: Contract,
    mart: Current | History | None,
    *,
    since: Mapping[str, int],
    partial: bool,
    snapshot_places: str | None = None,
) -> FoldSpec:
    """Return the fold spec of a mart.

    Args:
        contract: the table's contract.
        mart: the mart; None for a fold without a mart, which tracks no columns.
        since: column that is newer than the table -> its first batch.
        partial: some changes do not carry every column.
        snapshot_places: LIKE pattern of the positions of snapshot rows, or None.
    """
    times = () if contract.event_time is None else (contract.event_time,)
    types = {column.name: column.type for column in contract.columns}
    in_sequence = [name for name in contract.sequence_by if types[name] in ("timestamp", "timestamp_ntz", "date")]
    return FoldSpec(
        keys=contract.keys,
        sequence_by=contract.sequence_by,
        columns=contract.names,
        types=types,
        event_times=tuple(dict.fromkeys((*times, *in_sequence[:1]))),
        tracked=_tracked(contract, mart) if isinstance(mart, History) else (),
        since=since,
        partial=partial,
        snapshot_places=snapshot_places,
    )


def _tracked(contract: Contract, mart: History) -> tuple[str, ...]:
    if mart.track_history_columns is not None:
        return mart.track_history_columns
    if mart.track_history_except_columns is not None:
        left_out = {*mart.track_history_except_columns, *contract.keys}
    else:
        left_out = {*contract.keys, *contract.sequence_by, *filter(None, [contract.event_time])}
    return tuple(name for name in contract.names if name not in left_out)
