"""One name for each thing that Spark 3.5, 4.0 and 4.1 call or do differently.

Differences in Java are in :mod:`frazil.spark.gateway`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


def is_older_spark() -> bool:
    """Return whether this is Spark 3.5."""
    import pyspark  # noqa: PLC0415 - only where Spark runs

    return pyspark.__version__.startswith("3.")


def writes_nulls() -> bool:
    """Return whether Spark writes NULL into missing columns; Spark 3.5 and 4.0 refuse such rows."""
    import pyspark  # noqa: PLC0415

    return not pyspark.__version__.startswith(("3.", "4.0."))


def cancel_jobs(spark: SparkSession) -> None:
    """Cancel the jobs of a session; in Spark 3.5, whose jobs have no session, all jobs of the application."""
    spark.sparkContext.cancelAllJobs() if is_older_spark() else spark.interruptAll()


def valid_text(raw: str) -> str:
    """Write SQL that decodes UTF-8 and replaces each invalid byte by U+FFFD.

    Spark 4 fails in decode(); Spark 3.5 lacks make_valid_utf8().
    """
    return f"decode({raw}, 'UTF-8')" if is_older_spark() else f"make_valid_utf8(CAST({raw} AS string))"


def to_arrow(rows: DataFrame) -> pa.Table:
    """Collect rows as Arrow.

    Cost: all rows in the driver's memory.
    """
    if not is_older_spark():
        return rows.toArrow()
    import pyarrow as pa  # noqa: PLC0415 - as PySpark does
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    schema = to_arrow_schema(rows.schema)
    batches = rows._collect_as_arrow()  # type: ignore[operator]  # noqa: SLF001 - toPandas() without pandas
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def from_arrow(spark: SparkSession, rows: pa.Table, types: StructType | None = None) -> DataFrame:
    """Create a DataFrame from Arrow; pass ``types`` where Arrow's types do not imply Spark's.

    Args:
        spark: any session.
        rows: each column has at least one chunk, which may be empty.
        types: types of the columns, by position; None infers them from Arrow.
    """
    if not is_older_spark():
        return spark.createDataFrame(rows, types)  # type: ignore[no-any-return, call-overload, unused-ignore]
    import pyarrow as pa  # noqa: PLC0415
    from pyspark.sql import DataFrame  # noqa: PLC0415
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer  # noqa: PLC0415
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema  # noqa: PLC0415

    types = types or from_arrow_schema(rows.schema)
    wanted = to_arrow_schema(types)
    batches = rows.rename_columns(wanted.names).cast(wanted).combine_chunks().to_batches()
    jvm: Any = spark._jvm  # noqa: SLF001
    # As createDataFrame() does with the pieces of a pandas.DataFrame.
    pieces = spark.sparkContext._serialize_to_jvm(  # noqa: SLF001
        batches or [pa.RecordBatch.from_pylist([], wanted)],
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    return DataFrame(jvm.PythonSQLUtils.toDataFrame(pieces, types.json(), spark._jsparkSession), spark)  # noqa: SLF001


def nullable(types: StructType) -> StructType:
    """Return the types with every field nullable, at any depth."""
    if not is_older_spark():
        return types.toNullable()
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType  # noqa: PLC0415

    def loosened(kind: DataType) -> DataType:
        if isinstance(kind, StructType):
            return StructType([StructField(one.name, loosened(one.dataType), metadata=one.metadata) for one in kind])
        if isinstance(kind, ArrayType):
            return ArrayType(loosened(kind.elementType))
        return MapType(kind.keyType, loosened(kind.valueType)) if isinstance(kind, MapType) else kind

    return StructType(list(loosened(types)))  # type: ignore[call-overload]


def loggers(names: Iterable[str]) -> list[logging.Logger]:
    """Return loggers of PySpark; an empty list in Spark 3.5."""
    if is_older_spark():
        return []
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    return [PySparkLogger.getLogger(name) for name in names]
