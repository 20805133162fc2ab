"""Greatest order and event time of changes: a batch that begins after both needs no comparison with the mart."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.marts.arrow.fold import event_times, later
from frazil.marts.layout import fold_spec
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.marts.fold_spec import FoldSpec
    from frazil.silver.contract import Contract

NUMBERED: Final = frozenset({"int", "bigint", "date", "timestamp", "timestamp_ntz"})
"""Types whose values are numbers in the same order."""
_DAY: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - times are compared without a zone, as UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The greatest order and event time of some changes.

    Attributes:
        order, time: greatest values as in :class:`frazil.runner.batch.batch_stats.Measures`; None without changes.
            The time includes times of sources; if event times follow the order, it has only these.
    """

    order: int | str | None = None
    time: int | None = None

    @classmethod
    def in_bookmark(cls, bookmark: Mapping[str, Any]) -> Self:
        """Return the value in a mart's bookmark."""
        return cls(order=bookmark.get("newest"), time=bookmark.get("newest_time"))

    def as_bookmark(self) -> dict[str, Any]:
        """Return plain values for a mart's bookmark."""
        return {"newest": self.order} | ({} if self.time is None else {"newest_time": self.time})

    def later(self, other: Newest) -> Newest:
        """Return the greater order and the greater time of both."""
        return Newest(order=_greater(self.order, other.order), time=_greater(self.time, other.time))


def _greater(one: Any, other: Any) -> Any:
    return max((some for some in (one, other) if some is not None), default=None)


def newest_sql(contract: Contract, condition: str = "true") -> list[str]:
    """Return SQL aggregates of :class:`Newest` over the changes that fulfil an SQL condition."""
    time = _end_sql(contract)
    return [
        f"max({order_sql(contract, condition)}) AS greatest_order",
        f"max(CASE WHEN {condition} THEN {time} END) AS greatest_time",
    ]


def measure_newest(changes: DataFrame, contract: Contract) -> Newest:
    """Measure changes that were not measured during the write to silver.

    Cost: one Spark job over the columns of order and time.
    """
    row = changes.selectExpr(*newest_sql(contract)).first()
    return Newest() if row is None else newest_in(row.asDict())


def newest_in(row: Mapping[str, Any]) -> Newest:
    """Return the aggregates of :func:`newest_sql` from a result row."""
    return Newest(order=row["greatest_order"], time=row["greatest_time"])


def newest_of(changes: pa.Table, contract: Contract) -> Newest:
    """Return the result of :func:`measure_newest` for changes in the driver's memory."""
    _, order = order_ends(changes, contract)
    ends_at, times = changes[r.SOURCE_TIME].cast(pa.int64()), _times(changes, contract)
    if times is not None and not times_follow_order(contract):
        ends_at = later(times, ends_at)
    return Newest(order=order, time=None if times is None else pc.max(ends_at).as_py())


def order_sql(contract: Contract, condition: str) -> str:
    """Return SQL for the first part of a change's order: a number, or without sequence the position; else NULL."""
    order = "CAST(NULL AS bigint)"
    if not contract.sequence_by:
        order = r.POSITION
    else:
        name = quote(contract.sequence_by[0])
        match next(column.type for column in contract.columns if column.name == contract.sequence_by[0]):
            case "int" | "bigint":
                order = f"CAST({name} AS bigint)"
            case "date":
                order = f"CAST(unix_date({name}) AS bigint)"
            case "timestamp" | "timestamp_ntz":
                order = f"unix_micros(CAST({name} AS timestamp))"
            case _:
                pass
    return f"CASE WHEN {condition} THEN {order} END"


def number_of(text: str, kind: str) -> int:
    """Return what :func:`order_sql` is of a value that Spark has cast to text.

    Raises:
        ValueError: the type has no numbers, or Python not this one.
    """
    match kind:
        case "int" | "bigint":
            return int(text)
        case "date":
            return (date.fromisoformat(text) - _EPOCH.date()).days
        case "timestamp" | "timestamp_ntz":
            return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
        case _:
            raise ValueError(kind)


def order_ends(rows: pa.Table, contract: Contract) -> tuple[Any, Any]:
    """Return the least and greatest value of :func:`order_sql` over changes in the driver's memory."""
    if not contract.sequence_by:
        return ends(rows[r.POSITION], "string")
    name = contract.sequence_by[0]
    kind = next(column.type for column in contract.columns if column.name == name)
    return ends(rows[name], kind) if kind in NUMBERED else (None, None)


def times_follow_order(contract: Contract) -> bool:
    """Return whether event times follow the order; deletes are excepted, with the source's own later time."""
    return fold_spec(contract, None, since={}, partial=False).times_follow_order


def _timed(contract: Contract) -> FoldSpec | None:
    """Return the fold spec of a table with event times; None for other tables."""
    spec = fold_spec(contract, None, since={}, partial=False)
    return spec if spec.event_times else None


def _end_sql(contract: Contract) -> str:
    """Return SQL for the latest time of a change in microseconds, as far as its order does not imply it."""
    source = f"unix_micros({r.SOURCE_TIME})"
    if _timed(contract) is None:
        return "CAST(NULL AS bigint)"
    return source if times_follow_order(contract) else f"greatest({_time_sql(contract)}, {source})"


def _time_sql(contract: Contract) -> str:
    """Return SQL for a change's event time in microseconds, as in :func:`frazil.marts.fold_spec.with_event_time`."""
    spec = _timed(contract)
    if spec is None:
        return "CAST(NULL AS bigint)"
    # A date outside the range of timestamps has no time.
    times = (
        f"try_multiply(CAST(unix_date({quote(name)}) AS bigint), {_DAY}L)"
        if spec.types[name] == "date"
        else f"unix_micros(CAST({quote(name)} AS timestamp))"
        for name in spec.event_times
    )
    return f"coalesce({', '.join(times)})"


def least_time_sql(contract: Contract, condition: str) -> str:
    """Return SQL for the least event time; NULL if a change has no event time."""
    time = _time_sql(contract)
    return f"CASE WHEN count_if({condition} AND {time} IS NULL) = 0 THEN min(CASE WHEN {condition} THEN {time} END) END"


def _times(rows: pa.Table, contract: Contract) -> pa.Array | pa.ChunkedArray | None:
    """Return the event times of changes in microseconds; None if the table does not need them."""
    spec = _timed(contract)
    return None if spec is None else event_times(rows, spec).cast(pa.int64())


def least_time(rows: pa.Table, contract: Contract) -> int | None:
    """Return the result of :func:`least_time_sql` for changes in the driver's memory."""
    times = _times(rows, contract)
    return None if times is None or times.null_count else pc.min(times).as_py()


def ends(values: pa.ChunkedArray, kind: str) -> tuple[Any, Any]:
    """Return the least and greatest value, dates as days and times as microseconds since 1970; None without values."""
    if kind in NUMBERED:
        values = values.cast(pa.int32() if kind in {"int", "date"} else pa.int64())
    both = pc.min_max(values).as_py()
    return both["min"], both["max"]
