"""Rows in the driver's memory, and their conversion to DataFrames."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

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

from frazil.older_spark import from_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

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
