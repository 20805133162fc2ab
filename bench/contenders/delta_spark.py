"""Delta Lake on Spark: the careful MERGE's source, Delta's own MERGE, deletion vectors on."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from bench.contenders.merge import newest
from bench.contenders.spark import csv_records, merge_sql, spark_jobs
from bench.contenders.versions import DELTA
from frazil.host import usable_cores
from frazil.spark.java import find_java, spark_java_home

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.contenders.contender import Task
    from bench.meter import Reading


def make(name: str, task: Task) -> DeltaSpark:  # noqa: ARG001 - one contender, one name
    """Make the contender."""
    return DeltaSpark(task)


class DeltaSpark:
    """The current table as a Delta table; its session is set as Frazil sets its own."""

    marts: tuple[str, ...] = ("current",)

    def __init__(self, task: Task) -> None:
        self.task = task
        self.tables_folder: Path = task.home / "lake"
        self._target = f"delta.`{self.tables_folder / 'orders'}`"

    def open(self) -> None:
        """Start Spark with Delta; its jars come through the Ivy inside Spark the first time."""
        os.environ["JAVA_HOME"] = f"{spark_java_home(find_java())}"
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        cores = usable_cores()
        settings = {
            "spark.driver.memory": self.task.heap,
            "spark.jars.packages": DELTA,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": f"{self.tables_folder}",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.ansi.enabled": "false",
            "spark.sql.shuffle.partitions": f"{min(2 * cores, 8)}",
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
        if mirror := os.environ.get("FRAZIL_IVY_SETTINGS"):
            settings["spark.jars.ivySettings"] = mirror
        builder = SparkSession.builder.master(f"local[{cores}]").appName("bench")
        for name, text in settings.items():
            builder = builder.config(name, text)
        self.spark: SparkSession = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def load(self, files: Sequence[Path]) -> None:
        """Write the full load as it comes."""
        columns = self.task.columns
        csv_records(self.spark, files, {"op": "string", **columns}).createOrReplaceTempView("loaded")
        self.spark.sql(
            f"CREATE TABLE {self._target} USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') "
            f"AS SELECT {', '.join(columns)} FROM loaded"
        )

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Merge the newest change of every key."""
        newest(self.spark, files, self.task.columns).createOrReplaceTempView("newest")
        self.spark.sql(merge_sql(self._target, "newest", list(self.task.columns)))
        return {}

    def read(self) -> None:
        """Read the table."""
        columns = ", ".join(self.task.columns)
        self.spark.sql(
            f"SELECT count(*), sum(cast(xxhash64({columns}) AS decimal(38, 0))) FROM {self._target}"
        ).collect()

    def export(self, mart: str, folder: Path) -> None:  # noqa: ARG002 - it keeps one mart
        """Write the table as Parquet files."""
        self.spark.sql(f"SELECT * FROM {self._target}").write.parquet(f"{folder}")

    def jobs(self) -> int | None:
        """Count the Spark jobs so far."""
        return spark_jobs(self.spark)

    def close(self) -> None:
        """Stop Spark."""
        self.spark.stop()
