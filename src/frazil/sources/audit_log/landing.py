"""Landing files of an audit log: Parquet, all text, one folder a table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.sources.capture import land_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frazil.spec.model.kinds.audit_log import AuditLog


@dataclass(slots=True)
class Bookmark:
    """What was landed so far.

    Attributes:
        number: of the last turn that landed files.
        snapshot: text of the snapshot that saw all that is landed; empty before the first turn.
        system: identifier of the database's cluster; empty where it may not be asked.
        database: name of the database: all databases of a cluster share its transactions.
        tables: tables that are level with the snapshot.
        seen: numbers of records that are landed although the snapshot is not sure of their transactions.
        low: records up to this number are landed for sure.
        fence: a number that will be ``low`` once all transactions before ``fence_xid`` have ended.
        fence_xid: drawn a turn after ``fence``; 0 where it is not drawn.
        greatest: of the numbers that were landed.
        filenode: of the sequence that numbers are drawn from, which another one tells that it began again; 0 for none.
    """

    number: int = 0
    snapshot: str = ""
    system: str = ""
    database: str = ""
    tables: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    low: int = 0
    fence: int = 0
    fence_xid: int = 0
    greatest: int = 0
    filenode: int = 0

    @classmethod
    def read(cls, path: Path) -> Bookmark:
        """Read the bookmark; one of nothing where there is no file yet."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Write the bookmark, whole or not at all."""
        text = json.dumps(asdict(self))
        land_file(path, lambda part: _write(part, text))


def bookmark_path(root: Path, spec: AuditLog) -> Path:
    """Return where the bookmark of a log is."""
    return root / f".{spec.log}.bookmark.json"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


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
