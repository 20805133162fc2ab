"""How the tables of the marts are to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.marts.shape import Shape
from frazil.spec import Current, History

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.silver.contract import Contract


def mart_columns(mart: Current | History, contract: Contract) -> dict[str, str]:
    """List a mart's columns with their types."""
    columns = {column.name: column.type for column in contract.columns}
    match mart:
        case Current(deletes="soft"):
            columns |= {"is_deleted": "boolean", "deleted_at": "timestamp"}
        case History():
            columns |= {
                "valid_from": "timestamp",
                "valid_to": "timestamp",
                "is_current": "boolean",
                "is_deleted": "boolean",
            }
        case Current():
            pass
    return columns | {r.POSITION: "string", r.ROW: "bigint"}


def partitioning(mart: Current | History) -> tuple[str, ...]:
    """List a mart's partition transforms; history is split by ``is_current`` first, so a batch reads the living."""
    return ("is_current", *mart.partition_by) if isinstance(mart, History) else mart.partition_by


def mart_properties(mart: Current | History) -> dict[str, str]:
    """List a mart's table properties: the user's, and what its own partitions ask for."""
    # Parted by is_current alone every task has rows of both parts, and sending them around would gain nothing.
    here = {} if mart.partition_by else {"write.distribution-mode": "none", "write.spark.fanout.enabled": "true"}
    return {"format-version": str(mart.format_version)} | here | mart.properties


def shape_of(contract: Contract, mart: Current | History | None, *, since: Mapping[str, int], partial: bool) -> Shape:
    """Tell the folds of ``mart`` what they need to know; None for a fold that no mart is made of."""
    times = () if contract.event_time is None else (contract.event_time,)
    types = {column.name: column.type for column in contract.columns}
    in_sequence = [name for name in contract.sequence_by if types[name] in ("timestamp", "timestamp_ntz", "date")]
    return Shape(
        keys=contract.keys,
        sequence_by=contract.sequence_by,
        columns=contract.names,
        types=types,
        event_times=tuple(dict.fromkeys((*times, *in_sequence[:1]))),
        tracked=_tracked(contract, mart) if isinstance(mart, History) else (),
        since=since,
        partial=partial,
    )


def _tracked(contract: Contract, mart: History) -> tuple[str, ...]:
    if mart.track_history_columns is not None:
        return mart.track_history_columns
    if mart.track_history_except_columns is not None:
        left_out = {*mart.track_history_except_columns, *contract.keys}
    else:
        left_out = {*contract.keys, *contract.sequence_by, *filter(None, [contract.event_time])}
    return tuple(name for name in contract.names if name not in left_out)
