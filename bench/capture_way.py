"""A way from a PostgreSQL table to a current table: its interface, and the shared parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import psycopg
import pyarrow as pa

from bench.capture_slot import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE: Final = """\
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int, status text, amount numeric(12,2), note text,
    updated_at timestamptz, payload jsonb)"""
TOTALS: Final = "count(*), sum(id), sum(amount), sum(length(note)), count(*) FILTER (WHERE status = 'paid')"
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("customer_id", pa.int32()),
        ("status", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("note", pa.string()),
        ("updated_at", pa.timestamp("us", "UTC")),
        ("payload", pa.string()),
    ]
)
_DUCKDB_TYPES: Final = {
    "id": "BIGINT",
    "customer_id": "INTEGER",
    "status": "VARCHAR",
    "amount": "DECIMAL(12,2)",
    "note": "VARCHAR",
    "updated_at": "TIMESTAMPTZ",
    "payload": "VARCHAR",
}
_PART_ROWS: Final = 500_000


class Way(ABC):
    """Follows one table.

    Attributes:
        home: an empty folder.
        url: address of the database, which has the table and its first rows, and no writers while this opens.
        heap: memory of Spark's JVM.
    """

    def __init__(self, home: Path, url: str, heap: str) -> None:
        self.home, self.url, self.heap = home, url, heap

    @abstractmethod
    def open(self) -> None:
        """Make ready whatever captures, and load the first rows."""

    @abstractmethod
    def apply(self, changes: int) -> None:
        """Apply the changes that the table does not have yet; ``changes`` is their number."""

    @abstractmethod
    def totals(self) -> list[str]:
        """Return :data:`TOTALS` of the table as texts."""

    def session(self) -> psycopg.Connection[Any]:
        """Connect to the database."""
        return psycopg.connect(self.url, autocommit=True)

    def copied(self, select: str, name: str) -> str:
        """Copy what a SELECT finds into a CSV file; return its path."""
        file = self.home / name
        statement = f"COPY ({select}) TO STDOUT (FORMAT csv)".encode()
        with self.session() as session, file.open("wb") as into, session.cursor().copy(statement) as copy:
            for data in copy:
                into.write(data)
        return f"{file}"

    def first_rows(self) -> Iterator[pa.Table]:
        """Yield the rows that the table has now, in parts."""
        file = self.copied(f"SELECT {', '.join(COLUMNS)} FROM orders", "first.csv")
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            rows = database.execute("FROM read_csv(?, header = false, columns = ?)", [file, _DUCKDB_TYPES])
            for batch in rows.to_arrow_reader(_PART_ROWS):
                yield pa.Table.from_batches([batch]).cast(SCHEMA)
        Path(file).unlink()
