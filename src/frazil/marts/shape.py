"""What a fold needs to know of a table: names, order, and since when a column exists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The table's columns and their parts.

    Attributes:
        keys: columns that name a row.
        sequence_by: columns that order the changes of a key.
        columns: all columns of the contract, in table order.
        event_times: columns with the event time, the first that is not NULL counts; none where the table has no times.
        tracked: columns whose change opens a version of history.
        since: column -> first batch it was known in, for columns that came later than the table.
        partial: some changes of the table do not carry every column, so values come from older ones.
    """

    keys: tuple[str, ...]
    sequence_by: tuple[str, ...]
    columns: tuple[str, ...]
    event_times: tuple[str, ...] = ()
    tracked: tuple[str, ...] = ()
    since: Mapping[str, int] = field(default_factory=dict)
    partial: bool = False

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


def columns_of(names: tuple[str, ...], prefix: str = "") -> list[Column]:
    """Columns by name, each taken literally, optionally out of the struct ``prefix``."""
    return [F.col(quote(prefix, name) if prefix else quote(name)).alias(name) for name in names]


def order(shape: Shape) -> Column:
    """Order of a change: sequence, position, upsert after delete, content. Greater is newer; total."""
    content = F.xxhash64(*columns_of(shape.columns))
    upsert = (F.col(r.CLASS) == r.UPSERT).alias("_upsert")
    return F.struct(*columns_of(shape.order_columns), upsert, content.alias("_content"))


EVENT_TIME = "_event_time"
"""Column of change rows, beside those of silver, while they are folded."""


def with_event_time(changes: DataFrame, shape: Shape) -> DataFrame:
    """Add the event time to change rows: a timestamp, NULL where the table has no times."""
    times = [F.col(quote(name)).cast("timestamp") for name in shape.event_times]
    return changes.withColumn(EVENT_TIME, F.coalesce(*times) if times else F.lit(None).cast("timestamp"))
