"""A MERGE as a careful engineer writes it: typed read, ``max_by``, merge-on-read, load without a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.contenders.spark import PLACE, SPACE, OnIceberg, create_sql, csv_records, merge_sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from bench.contenders.contender import Task
    from bench.meter import Reading

_TARGET = f"{SPACE}.current"


def make(name: str, task: Task) -> Merge:  # noqa: ARG001 - one contender, one name
    """Make the contender."""
    return Merge(task)


class Merge(OnIceberg):
    """The current table by one merge-on-read MERGE a batch."""

    marts: tuple[str, ...] = ("current",)

    def load(self, files: Sequence[Path]) -> None:
        """Write the full load as it comes: its keys are unique, its files in order."""
        csv_records(self.spark, files, {"op": "string", **self.task.columns}).createOrReplaceTempView("loaded")
        query = f"SELECT {', '.join(self.columns)} FROM loaded"
        self.spark.sql(create_sql(_TARGET, query, mode="merge-on-read"))

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Merge the newest change of every key."""
        newest(self.spark, files, self.task.columns).createOrReplaceTempView("newest")
        self.spark.sql(merge_sql(_TARGET, "newest", self.columns))
        return {}

    def read(self) -> None:
        """Read the table."""
        self.read_all(self.mart("current"))


def newest(spark: SparkSession, files: Sequence[Path], columns: Mapping[str, str]) -> DataFrame:
    """Read the newest change of every key, typed, with its op."""
    changes = csv_records(spark, files, {"op": "string", **columns})
    kept = F.max_by(F.struct("op", *columns), F.struct("updated_at", *PLACE)).alias("kept")
    return changes.groupBy("id").agg(kept).select("kept.*")
