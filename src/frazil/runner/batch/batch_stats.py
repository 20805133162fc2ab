"""Results and statistics of a batch: row count, bytes, bounds of sequence and key, greatest order and event time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.errors import FrazilError
from frazil.marts.arrow.fold import event_times, later
from frazil.marts.layout import fold_spec
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.marts.layout import FoldSpec
    from frazil.runner.batch.driver_batch import DriverBatch
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
    """Return SQL for a change's event time in microseconds, as in :func:`frazil.marts.layout.with_event_time`."""
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


_RANGED: Final = frozenset({"int", "bigint", "date", "string"})
_LONG: Final = frozenset({"string", "binary"})
_STEP, _FAR = 1 << 20, 1 << 62
_FIRST_DAY: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Results of the aggregates of :func:`measure_sql` over a batch's changes.

    Attributes:
        changes: number of changes.
        text_bytes: bytes of their texts.
        oldest: least value of the first sequence column, rounded down, as text.
        least_order, greatest_order: least and greatest first sequence value as a number, None for other types; without
            ``sequence_by`` the position.
        least_time, greatest_time: least and greatest event time in microseconds since 1970, if a history needs them
            besides the order. The least is also None if a change has no event time.
        first_key, last_key: least and greatest value of the first key column, rounded down and up, as text.
    """

    changes: int
    text_bytes: int
    oldest: str | None
    least_order: int | str | None
    greatest_order: int | str | None
    least_time: int | None
    greatest_time: int | None
    first_key: str | None
    last_key: str | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Return the measures from a result row."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})

    @classmethod
    def of_rows(cls, rows: pa.Table, contract: Contract) -> Self | None:
        """Measure changes in the driver's memory; None if Arrow orders values of their types differently from Spark.

        The first and last key are None if they cannot prune files.

        Cost: one pass over the texts, the first key and the first sequence column.
        """
        types = {column.name: column.type for column in contract.columns}
        key, sequence = contract.keys[0], _sequence(contract)
        if not _has_ends(types[sequence]) or (types[key] in _RANGED and not _has_ends(types[key])):
            return None
        least, _ = ends(rows[sequence], types[sequence])
        first, last = ends(rows[key], types[key]) if types[key] in _RANGED else (None, None)
        try:
            oldest, first_key = _floor(least, types[sequence]), _floor(first, types[key])
            last_key = _ceiling(last, types[key])
        except OverflowError:  # a year that Python does not know
            return None
        (least_order, _), newest = order_ends(rows, contract), newest_of(rows, contract)
        texts = (pc.sum(pc.binary_length(rows[name])).as_py() or 0 for name in types if types[name] in _LONG)
        return cls(
            changes=rows.num_rows,
            text_bytes=sum(texts),
            oldest=oldest,
            least_order=least_order,
            greatest_order=newest.order,
            least_time=least_time(rows, contract),
            greatest_time=newest.time,
            first_key=first_key,
            last_key=last_key,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStats:
    """Statistics of one batch.

    Attributes:
        changes: number of its changes.
        size_bytes: estimated memory: eight bytes per value plus the bytes of texts.
        oldest: SQL of a lower bound of the first sequence column; ``NULL`` without changes or sequence.
        all_newer: every change is newer than all earlier batches, by the first part of the order.
        all_after: every event time is after all earlier batches, including the source's own times of their deletes.
            False if times were not measured.
        before: greatest order and event time of earlier batches; None if unknown.
        newest: the same including this batch.
        key_predicate: SQL condition on the first key that is true for all keys of the batch; it prunes files.
    """

    changes: int
    size_bytes: int
    oldest: str
    all_newer: bool
    all_after: bool
    before: Newest
    newest: Newest
    key_predicate: str


def measure_sql(contract: Contract, condition: str = "true") -> list[str]:
    """Return SQL aggregates of :class:`Measures` over the changes that fulfil an SQL condition."""
    types = {column.name: column.type for column in contract.columns}
    key, sequence = contract.keys[0], _sequence(contract)

    def of(name: str) -> str:
        return f"CASE WHEN {condition} THEN {quote(name)} END"

    long = [f"coalesce(octet_length({quote(name)}), 0)" for name, kind in types.items() if kind in _LONG]
    return [
        f"count_if({condition}) AS changes",
        f"coalesce(sum(CASE WHEN {condition} THEN {' + '.join(['0L', *long])} END), 0) AS text_bytes",
        f"{_least(of(sequence), types[sequence])} AS oldest",
        f"min({order_sql(contract, condition)}) AS least_order",
        f"{least_time_sql(contract, condition)} AS least_time",
        *newest_sql(contract, condition),
        f"{_least(of(key), types[key])} AS first_key",
        f"{_greatest(of(key), types[key])} AS last_key",
    ]


def measure(changes: DataFrame, contract: Contract) -> Measures:
    """Measure changes that were not measured during the write to silver.

    Cost: one Spark job over them.
    """
    row = changes.selectExpr(*measure_sql(contract)).first()
    if row is None:
        raise FrazilError("no statistics of a batch")
    return Measures.of(row.asDict())


def batch_stats(measures: Measures, contract: Contract, *, before: Newest) -> BatchStats:
    """Return the statistics of a batch.

    Args:
        measures: measures of its changes.
        contract: the table's contract.
        before: greatest order and event time of earlier batches.
    """
    types = {column.name: column.type for column in contract.columns}
    key, sequence = contract.keys[0], _sequence(contract)
    low, high = _literal(measures.first_key, types[key]), _literal(measures.last_key, types[key])
    newest = before.later(Newest(order=measures.greatest_order, time=measures.greatest_time))
    # If event times follow the order, the batch may have no delete with its own time.
    is_timeless = before.time is None and times_follow_order(contract)
    return BatchStats(
        changes=measures.changes,
        size_bytes=8 * measures.changes * len(contract.columns) + measures.text_bytes,
        oldest=_literal(measures.oldest, types[sequence]),
        all_newer=_begins_after(measures.least_order, before.order),
        all_after=_begins_after(measures.least_time, before.time) or (is_timeless and measures.least_time is not None),
        before=before,
        # Unknown values of earlier batches make the result unknown too.
        newest=Newest(
            order=None if before.order is None else newest.order,
            time=newest.time if is_timeless or before.time is not None else None,
        ),
        key_predicate=f"{quote(key)} >= {low} AND {quote(key)} <= {high}" if types[key] in _RANGED else "true",
    )


def _begins_after(least: Any, before: Any) -> bool:
    return least is not None and before is not None and bool(least > before)


def _sequence(contract: Contract) -> str:
    return contract.sequence_by[0] if contract.sequence_by else contract.keys[0]


def _least(value: str, kind: str) -> str:
    """Return SQL for a column's least value, rounded down, as text.

    Rounding keeps the literal the same for many batches: a new literal makes Spark compile its code again.
    """
    least = f"min({value})"
    match kind:
        case "timestamp" | "timestamp_ntz":
            least = f"date_trunc('DAY', {least})"
        case "int" | "bigint":
            least = (
                f"CASE WHEN {least} > -{_FAR} THEN {least} - pmod(CAST({least} AS bigint), {_STEP}) ELSE {least} END"
            )
        case _:
            pass
    return f"CAST({least} AS string)"


def _greatest(value: str, kind: str) -> str:
    """Return SQL for a column's greatest value, rounded up, as text; only for columns that prune files."""
    most = f"max({value})"
    if kind in {"int", "bigint"}:
        up = f"{most} + ({_STEP} - 1 - pmod(CAST({most} AS bigint), {_STEP}))"
        most = f"CASE WHEN {most} < {_FAR} THEN {up} ELSE {most} END"
    return f"CAST({most} AS string)"


def _literal(text: str | None, kind: str) -> str:
    return "NULL" if text is None else f"CAST({literal(text)} AS {'bigint' if kind == 'int' else kind})"


def _has_ends(kind: str) -> bool:
    """Return whether Arrow orders the values of a type as Spark does."""
    return kind in NUMBERED or kind == "string" or kind.startswith("decimal")


def _floor(value: Any, kind: str) -> str | None:
    """Return a least value rounded as in :func:`_least`."""
    if value is None:
        return None
    match kind:
        case "timestamp" | "timestamp_ntz":
            return f"{_FIRST_DAY + timedelta(days=value // _DAY)} 00:00:00"
        case "date":
            return f"{_FIRST_DAY + timedelta(days=value)}"
        case "int" | "bigint":
            return f"{value - value % _STEP if value > -_FAR else value}"
        case _:
            return format(value, "f") if isinstance(value, Decimal) else str(value)


def _ceiling(value: Any, kind: str) -> str | None:
    """Return a greatest value rounded as in :func:`_greatest`."""
    if value is not None and kind in {"int", "bigint"}:
        return f"{value + _STEP - 1 - value % _STEP if value < _FAR else value}"
    return _floor(value, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """A batch that was appended to bronze.

    Attributes:
        batch: number of the batch.
        rows: its rows of bronze if the batch is small enough for the driver's memory; else None.
        has_loads: some files are a full load of the table.
    """

    batch: int
    rows: pa.Table | None
    has_loads: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalized:
    """Batches ``after < batch <= upto`` that were written to silver.

    Attributes:
        after, upto: bounds of the batches.
        newest: greatest order and event time of their changes.
        measures: measures of their changes; None for a first load or a rebuild.
        driver_batch: their rows of silver if the batch is small enough for the driver's memory; else None.
    """

    after: int
    upto: int
    newest: Newest
    measures: Measures | None = None
    driver_batch: DriverBatch | None = None
