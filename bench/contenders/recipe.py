"""The published recipe: text columns, a ``row_number`` window, casts, and a copy-on-write MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.contenders.spark import SPACE, OnIceberg, create_sql, csv_records, merge_sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from bench.contenders.contender import Task
    from bench.meter import Reading

_TARGET = f"{SPACE}.current"


def make(name: str, task: Task) -> Recipe:
    """Make the contender that reads new files only, or every file each time."""
    return Recipe(task, reads_all=name == "recipe-all")


class Recipe(OnIceberg):
    """The current table by the recipe."""

    marts: tuple[str, ...] = ("current",)

    def __init__(self, task: Task, *, reads_all: bool = False) -> None:
        super().__init__(task)
        self._reads_all = reads_all
        self._landing = task.home / "landing"

    def load(self, files: Sequence[Path]) -> None:
        """Create the table as the recipe's first run does: deduplicated like any batch."""
        self._landed(files).createOrReplaceTempView("raw")
        columns = ", ".join(self.columns)
        self.spark.sql(create_sql(_TARGET, f"SELECT {columns} FROM ({self._newest_sql()})", mode="copy-on-write"))

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Merge the newest change of every key."""
        changes = self._landed(files)
        if self._reads_all:
            newest = self.spark.sql(f"SELECT max(updated_at) FROM {_TARGET}").first()
            changes = changes.where(changes["updated_at"].cast("timestamp") > newest[0])  # type: ignore[index]
        changes.createOrReplaceTempView("raw")
        # Computed once: a copy-on-write MERGE reads its source twice, and takes none with line numbers in it.
        self.spark.sql(self._newest_sql()).localCheckpoint().createOrReplaceTempView("newest")
        self.spark.sql(merge_sql(_TARGET, "newest", self.columns))
        return {}

    def read(self) -> None:
        """Read the table."""
        self.read_all(self.mart("current"))

    def _newest_sql(self) -> str:
        """Write the query that keeps the newest change of every key, then casts it."""
        casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in self.task.columns.items())
        return (
            f"SELECT op, {casts} FROM (SELECT *, row_number() OVER "
            "(PARTITION BY id ORDER BY updated_at DESC, _block DESC, _line DESC) AS n FROM raw) WHERE n = 1"
        )

    def _landed(self, files: Sequence[Path]) -> DataFrame:
        """Read new files as text; with all those before them where the recipe does."""
        if self._reads_all:
            self._landing.mkdir(exist_ok=True)
            for path in files:
                (self._landing / path.name).hardlink_to(path)
            files = sorted(self._landing.iterdir())
        return csv_records(self.spark, files, {"op": "string"} | dict.fromkeys(self.columns, "string"))
