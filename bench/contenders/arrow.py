"""What the contenders without Spark share: DuckDB reads and deduplicates the files into Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from bench.truth import newest_sql, records_sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.contenders.contender import Task


class WithoutSpark:
    """A contender in this process, with DuckDB at hand."""

    marts: tuple[str, ...] = ("current",)

    def __init__(self, task: Task) -> None:
        self.task = task
        self.columns = list(task.columns)
        self.tables_folder: Path = task.home / "lake"

    def open(self) -> None:
        """Open DuckDB."""
        self.tables_folder.mkdir(exist_ok=True)
        self.db = duckdb.connect()

    def loaded(self, files: Sequence[Path]) -> Any:
        """Read a full load as one Arrow table."""
        return self.arrow(f"SELECT {', '.join(self.columns)} FROM ({records_sql(files, self.task.columns)})")

    def newest(self, files: Sequence[Path]) -> Any:
        """Read the newest change of every key as one Arrow table, with its ``op``."""
        return self.arrow(newest_sql(files, self.task.columns))

    def arrow(self, query: str) -> Any:
        """Run a query."""
        return self.db.execute(query).to_arrow_table()

    def read_all(self, rows: Any) -> None:
        """Compute a checksum over every column of anything that DuckDB can scan."""
        self.db.register("whole", rows)
        self.db.execute(f"SELECT count(*), sum(hash({', '.join(self.columns)})) FROM whole").fetchall()
        self.db.unregister("whole")

    def write(self, rows: Any, folder: Path) -> None:
        """Write anything that DuckDB can scan as a Parquet file."""
        self.db.register("whole", rows)
        self.db.execute(f"COPY (SELECT {', '.join(self.columns)} FROM whole) TO '{folder / 'rows.parquet'}'")
        self.db.unregister("whole")

    def jobs(self) -> int | None:
        """Return None, as it runs without Spark."""
        return None

    def close(self) -> None:
        """Close DuckDB."""
        self.db.close()


def merge_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """Write what a merge sets: every column from the source's."""
    return {name: f"s.{name}" for name in columns}
