"""Rows in the driver's memory: their conversion to DataFrames, and rows of a table's lake tables found there."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from frazil.bronze import record as r
from frazil.catalog.conf import lake_address
from frazil.errors import FrazilError
from frazil.lake.refs import head
from frazil.lake.row_lookup import find_rows
from frazil.lake.table_files import TableFiles, table_files
from frazil.older_spark import from_arrow
from frazil.spec.sql.names import quote
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.runner.table_run import TableRun

_SINGLE_PARTITION: Final = {
    # More records than any batch in the driver's memory has.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8000000",
    # Passed as Arrow; the planner would convert a local relation row by row.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
}
_TYPES: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "array<string>": ArrayType(StringType()),
}


@dataclass(frozen=True, slots=True)
class DriverBatch:
    """Rows in the driver's memory.

    Attributes:
        rows: an Arrow table.
        types: its columns with Spark's types.
    """

    rows: pa.Table
    types: StructType

    def filter(self, mask: pa.ChunkedArray, names: Sequence[str]) -> Self:
        """Return the rows where a mask is true, with some columns."""
        kept = self.rows.select([*names]).filter(mask)
        return replace(self, rows=kept, types=StructType([self.types[name] for name in names]))

    def frame(self, spark: SparkSession, names: Sequence[str] = ()) -> DataFrame:
        """Create a DataFrame of some columns, or of all; see :func:`spark_frame`.

        Cost: each read transfers the rows again.
        """
        names = [*names] or self.types.names
        return spark_frame(spark, self.rows.select(names), StructType([self.types[name] for name in names]))


def spark_frame(spark: SparkSession, rows: pa.Table, types: StructType | None = None) -> DataFrame:
    """Create a single-partition DataFrame from Arrow.

    Args:
        spark: the session.
        rows: an Arrow table.
        types: Spark's types, if Arrow's types do not imply them.
    """
    for name, value in _SINGLE_PARTITION.items():
        spark.conf.set(name, value)
    # PySpark needs at least one chunk per column, even an empty one.
    return from_arrow(spark, rows if rows.num_rows else rows.schema.empty_table(), types)


def spark_types(columns: Mapping[str, str]) -> StructType:
    """Return columns with Spark's types; ``columns`` is name -> type that Arrow can prove, or ``array<string>``."""
    return StructType([StructField(name, _spark_type(kind)) for name, kind in columns.items()])


def _spark_type(kind: str) -> DataType:
    if kind in _TYPES:
        return _TYPES[kind]
    digits, scale = map(int, re.findall(r"\d+", kind))
    return DecimalType(digits, scale)


UNREADABLE = (FrazilError, OSError, pa.ArrowException, ValueError, LookupError)
"""Exceptions of a file that cannot be read or contradicts its table. Spark then reads the same file and reports the
error."""


def mart_files(context: TableRun, path: tuple[str, ...], *, is_own: bool = True) -> TableFiles | NeedsSpark:
    """Return the files of a mart.

    Args:
        context: the table's part of the run.
        path: the mart's table.
        is_own: the mart belongs to the run's table, and the run's snapshot counts; if False, the newest snapshot does.

    Returns:
        The files. Spark is needed for a mart above ``driver_scan_bytes`` or ``driver_scan_files``, or if only Spark can
        read them.

    Raises:
        UNREADABLE: an exception of :data:`UNREADABLE`.
    """
    at = context.head(path) if is_own else head(context.spark, quote(*path))
    return NeedsSpark("large") if at.size_bytes > context.policy.driver_scan_bytes else _files(context, path, at)


def _files(context: TableRun, path: tuple[str, ...], at: TableSnapshot) -> TableFiles | NeedsSpark:
    if at.snapshot_id is None:
        return NeedsSpark("files")
    if at.data_files + at.delete_files > context.policy.driver_scan_files:
        return NeedsSpark("large")
    if at.snapshot_id not in context.files:
        address = partial(lake_address, context.pipeline)
        context.files[at.snapshot_id] = table_files(context.spark, quote(*path), at, address)
    return context.files[at.snapshot_id]


def find_in_mart(
    context: TableRun, path: tuple[str, ...], values: pa.Table, also: Sequence[str] = (), flag: str | None = None
) -> pa.Table | NeedsSpark:
    """Return the rows of a mart, at the run's snapshot, that have one of some values.

    Args:
        context: the table's part of the run.
        path: the mart's table.
        values: values to find, as :func:`frazil.lake.row_lookup.find_rows` takes them.
        also: further columns to return.
        flag: a column that must be true.

    Returns:
        The rows as that function returns them; Spark is also needed if a file cannot be read.
    """
    try:
        files = mart_files(context, path)
        return files if isinstance(files, NeedsSpark) else find_rows(files, values, also, flag)
    except UNREADABLE:
        return NeedsSpark("files")


def find_deletes(
    context: TableRun, keys: pa.Table, also: Sequence[str], bounds: Mapping[str, pa.Scalar]
) -> pa.Table | NeedsSpark:
    """Return the deletes of some keys in silver, including those of the current batch.

    Args:
        context: the table's part of the run.
        keys: keys to find, as :func:`frazil.lake.row_lookup.find_rows` takes them.
        also: further columns to return.
        bounds: column -> value; deletes below all of these values may be omitted.

    Returns:
        The columns of ``keys`` and ``also``, or why Spark must find them.
    """
    try:
        files = _files(context, context.changes, context.head(context.changes))
        if isinstance(files, NeedsSpark):
            return files
        files = files.of_partition(r.CLASS, r.DELETE)
        if bounds:
            files = files.not_below(bounds)
        if files.size_bytes > context.policy.driver_scan_bytes:
            return NeedsSpark("large")
        rows = find_rows(files, keys, [*also, r.CLASS])
    except UNREADABLE:
        return NeedsSpark("files")
    # A file without a partition may have rows of both classes.
    return rows if isinstance(rows, NeedsSpark) else rows.filter(pc.equal(rows[r.CLASS], r.DELETE))


def find_changes(context: TableRun, keys: pa.Table, also: Sequence[str]) -> pa.Table | NeedsSpark:
    """Return all changes of some keys in silver, with further columns.

    Args:
        context: the table's part of the run.
        keys: keys to find, as :func:`frazil.lake.row_lookup.find_rows` takes them.
        also: further columns to return.

    Returns:
        The changes. Spark is needed if silver is above ``driver_scan_bytes``, or the changes are more than
        ``single_task_changes``.
    """
    try:
        files = _files(context, context.changes, context.head(context.changes))
        if isinstance(files, NeedsSpark):
            return files
        if files.size_bytes > context.policy.driver_scan_bytes:
            return NeedsSpark("large")
        return find_rows(files, keys, also, most=context.policy.single_task_changes)
    except UNREADABLE:
        return NeedsSpark("files")
