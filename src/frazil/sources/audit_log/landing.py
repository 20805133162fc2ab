"""Landing files of an audit log: Parquet, all text, one folder a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.sources.capture import land_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILE_RECORDS: Final = 100_000
"""The most records of a landing file."""


class Writer:
    """Writes records to the folders of their tables, a file for every so many."""

    def __init__(self, root: Path, turn: int, columns: Sequence[str]) -> None:
        self._root, self._turn = root, turn
        self._schema = pa.schema([(name, pa.string()) for name in columns])
        self._held: dict[str, list[tuple[str, ...]]] = {}
        self.files = self.records = 0

    def add(self, table: str, row: tuple[str, ...]) -> None:
        """Add a record."""
        held = self._held.setdefault(table, [])
        held.append(row)
        self.records += 1
        if len(held) >= FILE_RECORDS:
            self._write(table)

    def close(self) -> None:
        """Write what is left."""
        for table in [*self._held]:
            self._write(table)

    def _write(self, table: str) -> None:
        rows = self._held.pop(table)
        arrays = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        records = pa.Table.from_arrays(arrays, schema=self._schema)
        name = f"{self._turn:09}-{rows[0][0].zfill(20)}.parquet"
        land_file(self._root / table / name, lambda path: pq.write_table(records, path, compression="zstd"))
        self.files += 1


def turn_of(file: Path) -> int:
    """Return the number of the turn that landed a file."""
    return int(file.name.partition("-")[0])
