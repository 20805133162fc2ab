"""The physical limit: DuckDB's cost of the bytes alone, without commits, bookmarks or late changes.

``write``: read the changed files, keep the newest change of every key, write those rows as Parquet. ``scan``: also find
    the rows they replace by one scan of the key column, and write their places; from these two files a batch a reader
    could build the table. ``copy``: also rewrite the whole table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.contenders.arrow import WithoutSpark
from bench.truth import newest_sql, records_sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.contenders.contender import Task
    from bench.meter import Reading


def make(name: str, task: Task) -> Limit:
    """Make the limit that the name says."""
    return {"limit-write": Limit, "limit-scan": ScanLimit, "limit-copy": CopyLimit}[name](task)


class Limit(WithoutSpark):
    """Writes changed rows without the places of the rows they replace, so no table can be checked."""

    marts: tuple[str, ...] = ()

    def load(self, files: Sequence[Path]) -> None:
        """Write the full load as one Parquet file."""
        rows = f"SELECT {', '.join(self.columns)} FROM ({records_sql(files, self.task.columns)})"
        self._copy(rows, "rows-00000.parquet")

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Write the newest change of every key."""
        self.db.execute(f"CREATE OR REPLACE TEMP TABLE changed AS {newest_sql(files, self.task.columns)}")
        self._copy(f"SELECT {', '.join(self.columns)} FROM changed WHERE op <> 'D'", self._next("rows"))
        return {}

    def read(self) -> None:
        """Read what was written."""
        self.db.execute(f"SELECT count(*), sum(hash({', '.join(self.columns)})) FROM ({self.rows_sql()})").fetchall()

    def export(self, mart: str, folder: Path) -> None:  # noqa: ARG002 - one mart at most
        """Write the table as one Parquet file."""
        self.db.execute(f"COPY ({self.rows_sql()}) TO '{folder / 'rows.parquet'}'")

    def rows_sql(self) -> str:
        """Write the query for all rows."""
        return f"SELECT {', '.join(self.columns)} FROM read_parquet('{self.tables_folder}/rows-*.parquet')"

    def _copy(self, query: str, name: str) -> None:
        self.db.execute(f"COPY ({query}) TO '{self.tables_folder / name}' (COMPRESSION zstd)")

    def _next(self, kind: str) -> str:
        return f"{kind}-{len(list(self.tables_folder.glob('rows-*.parquet'))):05d}.parquet"


class ScanLimit(Limit):
    """The rows that changed ones replace are found by one scan of the key column."""

    marts: tuple[str, ...] = ("current",)

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Write the places of the rows that go, then the rows that come."""
        self.db.execute(f"CREATE OR REPLACE TEMP TABLE changed AS {newest_sql(files, self.task.columns)}")
        self._copy(
            f"SELECT filename, file_row_number FROM {self._placed()} SEMI JOIN changed USING (id)", self._next("gone")
        )
        self._copy(f"SELECT {', '.join(self.columns)} FROM changed WHERE op <> 'D'", self._next("rows"))
        return {}

    def rows_sql(self) -> str:
        """Write the query for the rows that no batch replaced."""
        gone = (
            f"read_parquet('{self.tables_folder}/gone-*.parquet')" if self._next("gone") != "gone-00001.parquet" else ""
        )
        kept = f" ANTI JOIN {gone} AS gone USING (filename, file_row_number)" if gone else ""
        return f"SELECT {', '.join(self.columns)} FROM {self._placed()}{kept}"

    def _placed(self) -> str:
        files = f"'{self.tables_folder}/rows-*.parquet'"
        return f"read_parquet({files}, filename = true, file_row_number = true) AS placed"


class CopyLimit(Limit):
    """Rewrites the whole table for every batch: the limit of copy-on-write."""

    marts: tuple[str, ...] = ("current",)

    def apply(self, files: Sequence[Path]) -> Mapping[str, Reading]:
        """Write all rows that stay and all that come to a new file."""
        self.db.execute(f"CREATE OR REPLACE TEMP TABLE changed AS {newest_sql(files, self.task.columns)}")
        names, fresh = ", ".join(self.columns), self._next("rows")
        self._copy(
            f"SELECT {names} FROM ({self.rows_sql()}) ANTI JOIN changed USING (id) "
            f"UNION ALL SELECT {names} FROM changed WHERE op <> 'D'",
            fresh,
        )
        return {}

    def rows_sql(self) -> str:
        """Write the query for the newest file's rows."""
        newest = max(self.tables_folder.glob("rows-*.parquet"))
        return f"SELECT {', '.join(self.columns)} FROM read_parquet('{newest}')"
