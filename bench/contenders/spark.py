"""What the contenders on Spark and Iceberg share: Frazil's own session and catalog, so that only the way differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import frazil
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from bench.contenders.contender import Task

SPACE: Final = "lake.bench"
PLACE: Final = ("_block", "_line")
"""Columns that tell the order of records in their batch. The published recipes leave ties to chance; here they
must not, or no two contenders would end with the same table."""


class OnIceberg:
    """A contender with a Spark session and the catalog ``lake`` in its home."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.columns = list(task.columns)
        self.tables_folder: Path = task.home / "lake"

    def open(self) -> None:
        """Start Spark."""
        table = frazil.Table(name="none", source=frazil.DmsFiles(path=("none",)), keys=("id",))
        pipeline = frazil.Pipeline(pipeline="bench", lake=frazil.Lake(warehouse="lake"), tables=(table,))
        self.spark: SparkSession = spark_session(pipeline.at(self.task.home), memory=self.task.heap)
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {SPACE}")

    def jobs(self) -> int | None:
        """Count the Spark jobs so far."""
        return spark_jobs(self.spark)

    def export(self, mart: str, folder: Path) -> None:
        """Write a mart as Parquet files."""
        self.mart(mart).write.parquet(f"{folder}")

    def mart(self, mart: str) -> DataFrame:
        """Give the rows of a mart, which has its own name by default."""
        return self.spark.table(f"{SPACE}.{mart}")

    def read_all(self, rows: DataFrame) -> None:
        """Compute a checksum over every column."""
        columns = ", ".join(rows.columns)
        rows.selectExpr("count(*)", f"sum(cast(xxhash64({columns}) AS decimal(38, 0)))").collect()

    def close(self) -> None:
        """Stop Spark."""
        self.spark.stop()


def spark_jobs(spark: SparkSession) -> int:
    """Count the Spark jobs that an application has started."""
    context: Any = spark.sparkContext
    return int(context._jsc.sc().dagScheduler().numTotalJobs())  # noqa: SLF001 - the status API forgets old jobs


def csv_records(
    spark: SparkSession, files: Sequence[Path], types: Mapping[str, str], line: str = "monotonically_increasing_id()"
) -> DataFrame:
    """Read DMS files with Spark's own reader, with ``PLACE``.

    Args:
        spark: any session.
        files: with a header line.
        types: names and types of the fields.
        line: SQL that numbers the records of a block; where order within a file does not matter, any number,
            for what is numbered cannot be the source of a copy-on-write MERGE.
    """
    schema = ", ".join(f"{name} {kind}" for name, kind in types.items())
    reader = spark.read.schema(schema).option("header", True).option("nullValue", "NULL").option("escape", '"')
    return reader.csv([str(path) for path in files]).selectExpr(
        "*",
        "struct(_metadata.file_name, _metadata.file_block_start) AS _block",
        f"{line} AS _line",
    )


def create_sql(name: str, query: str, *, mode: str) -> str:
    """Write the CREATE TABLE AS of an Iceberg table that rewrites or marks what changes.

    Args:
        name: of the table.
        query: its first rows.
        mode: ``copy-on-write`` or ``merge-on-read``.
    """
    properties = {"format-version": "2", "write.parquet.compression-codec": "zstd"} | {
        f"write.{verb}.mode": mode for verb in ("merge", "delete", "update")
    }
    written = ", ".join(f"'{key}' = '{text}'" for key, text in properties.items())
    return f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ({written}) AS {query}"


def merge_sql(target: str, source: str, columns: Sequence[str]) -> str:
    """Write the MERGE by key that every recipe has; the source has one row a key, with its ``op``."""
    sets = ", ".join(f"{name} = s.{name}" for name in columns)
    values = ", ".join(f"s.{name}" for name in columns)
    return (
        f"MERGE INTO {target} AS t USING {source} AS s ON t.id = s.id "
        "WHEN MATCHED AND s.op = 'D' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND s.op <> 'D' THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    )
