"""A landing folder, and a way to read what stands in it as rows of the bronze table."""

from __future__ import annotations

import datetime as dt
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest

from frazil.bronze.csv_lines import count_records, dialect_of
from frazil.bronze.layout import NewFile, is_parquet, layout_of
from frazil.bronze.read import count_lines, records, schema
from frazil.sources.dms import list_files, take
from frazil.spec import Column, DmsFiles, Table

LATER = 4e9
"""A time at which every file has settled."""


class Landing:
    """Files of one source table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: bytes) -> str:
        """Write a file; gives its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return str(path)

    def fresh(self) -> Landing:
        """Give another, empty folder: one for each example of a property."""
        return Landing(Path(tempfile.mkdtemp(dir=self.folder)))

    def table(self, names: str = "", **source: Any) -> Table:
        """A table of text columns whose files are all in the folder."""
        columns = tuple(Column(name=name) for name in names.split()) or None
        return Table(name="hosts", source=DmsFiles(path=(".",), **source), keys=("id",), columns=columns)

    def take(self, table: Table) -> tuple[NewFile, ...]:
        """Take all files, new ones and duplicates."""
        taken = take(list_files(table.source, self.folder), {}, {}, table.source, LATER)
        return taken.new

    def rows(
        self,
        names: str = "",
        *,
        existing: tuple[str, ...] = (),
        limits: dict[str, int] | None = None,
        **source: Any,
    ) -> list[dict[str, Any]]:
        """Read all files; every file is also counted anew and has to come out whole."""
        table = self.table(names, **source)
        files = self.take(table)
        layout = layout_of(table, files, existing, batch=7, arrived_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
        rows: list[dict[str, Any]] = []
        for file in files:
            sent_file, sent_layout = pickle.loads(pickle.dumps((file, layout)))  # noqa: S301 - our own
            batches = list(records(sent_file, sent_layout, **(limits or {})))
            assert all(batch.schema == schema(layout) for batch in batches)
            for batch in batches:
                batch.validate(full=True)
            mine = [row for batch in batches for row in batch.to_pylist()]
            ledger = mine[-1]["_cdc_ledger"]
            if limits and not is_parquet(file.name):
                dialect = dialect_of(layout)
                assert count_records(file.uri, dialect) == count_records(
                    file.uri, dialect, block_bytes=limits["block_bytes"]
                )
            lines = count_lines(file.uri, delimiter=layout.delimiter, escape=layout.escape)
            assert lines == sum(ledger[part] for part in ("rows", "bad", "headers", "foreign"))
            assert [ledger["rows"], ledger["bad"], 1] == [kinds(mine, kind) for kind in ("record", "bad", "file")]
            rows += mine
        return rows


def kinds(rows: list[dict[str, Any]], kind: str) -> int:
    return sum(row["_cdc_kind"] == kind for row in rows)


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)
