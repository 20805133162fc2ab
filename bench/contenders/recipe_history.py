"""The recipe's history: append to a change log, rebuild the affected keys' versions, MERGE them copy-on-write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.contenders.recipe import Recipe
from bench.contenders.spark import PLACE, SPACE, OnIceberg, create_sql, csv_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.contenders.contender import Task
    from bench.meter import Reading

_LOG, _TARGET = f"{SPACE}.log", f"{SPACE}.history"
_VERSION = ("valid_from", "valid_to", "is_current", "is_deleted")


def make(name: str, task: Task) -> RecipeHistory | RecipeBoth:
    """Make the contender for history alone, or for both tables."""
    return RecipeBoth(task) if name == "recipe-both" else RecipeHistory(task)


class RecipeHistory(OnIceberg):
    """The history table by the recipe."""

    marts: tuple[str, ...] = ("history",)

    def load(self, files: Sequence[Path]) -> None:
        """Begin the log, and one open version a row."""
        self._view(files)
        names = ", ".join(self.columns)
        log = f"SELECT op, {names}, {', '.join(PLACE)} FROM arrived"
        self.spark.sql(create_sql(_LOG, log, mode="copy-on-write"))
        versions = (
            f"SELECT {names}, updated_at AS valid_from, CAST(NULL AS timestamp) AS valid_to, "
            "true AS is_current, false AS is_deleted FROM arrived"
        )
        self.spark.sql(create_sql(_TARGET, versions, mode="copy-on-write"))

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Log the batch, then merge all versions of the keys in it."""
        self._view(files)
        names = ", ".join(self.columns)
        self.spark.sql(f"INSERT INTO {_LOG} SELECT op, {names}, {', '.join(PLACE)} FROM arrived")
        # Kept, because a view over an Iceberg table does not plan as the source of a MERGE on Spark 4.1.
        self.spark.sql(
            f"SELECT {names}, updated_at AS valid_from, next_at AS valid_to, next_at IS NULL AS is_current, "
            "coalesce(next_op = 'D', false) AS is_deleted FROM ("
            "SELECT *, lead(updated_at) OVER (PARTITION BY id ORDER BY updated_at) AS next_at, "
            "lead(op) OVER (PARTITION BY id ORDER BY updated_at) AS next_op FROM ("
            "SELECT *, row_number() OVER (PARTITION BY id, updated_at ORDER BY _block DESC, _line DESC) AS n "
            f"FROM {_LOG} WHERE id IN (SELECT id FROM arrived)) WHERE n = 1) WHERE op <> 'D'"
        ).localCheckpoint().createOrReplaceTempView("versions")
        every = (*self.columns, *_VERSION)
        self.spark.sql(
            f"MERGE INTO {_TARGET} AS t USING versions AS s ON t.id = s.id AND t.valid_from = s.valid_from "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in every)} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(every)}) VALUES ({', '.join(f's.{name}' for name in every)})"
        )
        return {}

    def read(self) -> None:
        """Read the history."""
        self.read_all(self.mart("history"))

    def _view(self, files: Sequence[Path]) -> None:
        csv_records(self.spark, files, {"op": "string", **self.task.columns}).createOrReplaceTempView("arrived")


class RecipeBoth(RecipeHistory):
    """Both tables by the recipe, in one session."""

    marts: tuple[str, ...] = ("current", "history")

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._current = Recipe(task)

    def open(self) -> None:
        """Start Spark, once for both."""
        super().open()
        self._current.spark = self.spark

    def load(self, files: Sequence[Path]) -> None:
        """Make both tables."""
        self._current.load(files)
        super().load(files)

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Bring both tables up to date."""
        self._current.apply(files)
        return super().apply(files)

    def read(self) -> None:
        """Read the current table, as the others do."""
        self._current.read()
