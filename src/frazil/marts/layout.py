"""Iceberg layout of marts, and their fold specs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.bronze import record as r
from frazil.marts.fold_spec import FoldSpec
from frazil.spec import Current, History
from frazil.spec.contract import added_columns
from frazil.spec.model.mart import partition_transform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frazil.silver.contract import Contract


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
