"""Rows in the driver's memory, and their way to Spark."""

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
    # More records than any batch has that stays in the driver's memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8000000",
    # Handed over as they are; a local relation would be taken apart and typed row by row in the planner.
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
        types: its columns as Spark knows them.
    """

    rows: pa.Table
    types: StructType

    def filter(self, mask: pa.ChunkedArray, names: Sequence[str]) -> Self:
        """Keep the rows where a mask is true, and some columns."""
        kept = self.rows.select([*names]).filter(mask)
        return replace(self, rows=kept, types=StructType([self.types[name] for name in names]))

    def frame(self, spark: SparkSession, names: Sequence[str] = ()) -> DataFrame:
        """Create a DataFrame of some columns, or of all; see :func:`spark_frame`.

        Cost: as large as what is handed over, each time that it is read.
        """
        names = [*names] or self.types.names
        return spark_frame(spark, self.rows.select(names), StructType([self.types[name] for name in names]))


def spark_frame(spark: SparkSession, rows: pa.Table, types: StructType | None = None) -> DataFrame:
    """Create a single-partition DataFrame from Arrow; ``types`` where Arrow's do not imply Spark's."""
    for name, value in _SINGLE_PARTITION.items():
        spark.conf.set(name, value)
    # PySpark takes no columns that are not at least one empty piece.
    return from_arrow(spark, rows if rows.num_rows else rows.schema.empty_table(), types)


def spark_types(columns: Mapping[str, str]) -> StructType:
    """Return columns as Spark knows them; ``columns``: name -> type that Arrow can prove, or ``array<string>``."""
    return StructType([StructField(name, _spark_type(kind)) for name, kind in columns.items()])


def _spark_type(kind: str) -> DataType:
    if kind in _TYPES:
        return _TYPES[kind]
    digits, scale = map(int, re.findall(r"\d+", kind))
    return DecimalType(digits, scale)
