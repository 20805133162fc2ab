"""The rows of a mart that a batch in the driver's memory may replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.lake.row_lookup import AT_FILE, AT_POS
from frazil.marts import late
from frazil.spec import History
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.apply.mart_batch import MartBatch

    Collect: TypeAlias = Callable[[DataFrame], pa.Table]

_IS_DELETED, _IS_CURRENT = "is_deleted", "is_current"
_VERSION = ("valid_from", _IS_DELETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The mart's rows of a batch's keys: the keys, ``_cdc_lived``, file and position, and what was asked for.

    Attributes:
        rows: all that may be the newest of their key.
        newer: those of them that may make a change late, with the first order column.
        by_driver: the driver found them by itself; those of a history have all columns then.
    """

    rows: pa.Table
    newer: pa.Table
    by_driver: bool


def find_target(batch: MartBatch, changes: pa.Table, lacking: Sequence[str], collect: Collect) -> Found:
    """Find the mart's rows of the batch's keys. Of the mart's values only those that changes lack are read.

    Where changes may be late, with the first column of the order: most keys begin after what the mart has of it, and
    the rest of the order is read of the others.
    """
    names = batch.spec.keys
    first = [name for name in batch.spec.order_columns[:1] if batch.compares and name not in names]
    rows = _by_driver(batch, changes, [*lacking, *first])
    if rows is not None:
        return Found(rows=rows, newer=rows, by_driver=True)
    rows = collect(_by_spark(batch, [*lacking, *(first if batch.has_order else ())]))
    newer = rows
    if batch.compares and not batch.has_order:
        newer = collect(batch.newer_rows(batch.keys).select(*map(quote, [*names, *first])))
    return Found(rows=rows, newer=newer, by_driver=False)


def _by_spark(batch: MartBatch, wanted: Sequence[str]) -> DataFrame:
    """Return the mart's rows of the batch's keys, as Spark finds them, with some columns."""
    return batch.target_rows.select(*map(quote, (*batch.spec.keys, late.LIVED, AT_FILE, AT_POS, *wanted)))


def _by_driver(batch: MartBatch, changes: pa.Table, wanted: Sequence[str]) -> pa.Table | None:
    """Return the same, as the driver finds them by itself; None where Spark must."""
    find, mart, spec = batch.target.find, batch.mart, batch.spec
    keys = changes.select([*spec.keys])
    if isinstance(mart, History):
        values = [name for name in spec.columns if name not in spec.keys]
        rows = find(keys, [*values, *_VERSION, r.POSITION, r.ROW], _IS_CURRENT)
    else:
        rows = find(keys, [*wanted, *([_IS_DELETED] if mart.deletes == "soft" else [])])
    if rows is None:
        return None
    has_flag = _IS_DELETED in rows.column_names
    lived = pc.invert(rows[_IS_DELETED]) if has_flag else pa.repeat(True, rows.num_rows)
    return rows.append_column(late.LIVED, lived)
