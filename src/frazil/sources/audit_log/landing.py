"""Landing files of an audit log: Parquet, all text, one folder a table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.sources.capture import land_file
from frazil.sources.landed_files import note_landed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frazil.spec.model.kinds.audit_log import AuditLog


@dataclass(slots=True)
class Bookmark:
    """Position of the capture of one log.

    Attributes:
        number: number of the last turn that landed files.
        snapshot: text of the snapshot up to which records are landed; empty before the first turn.
        system: identifier of the database cluster; empty if the role must not read it.
        database: name of the database; all databases of a cluster share transaction numbers.
        tables: tables whose records are landed up to the snapshot.
        seen: numbers of landed records whose transactions the snapshot could not decide.
        low: all records up to this number are landed.
        fence: number that becomes ``low`` after all transactions before ``fence_xid`` have ended.
        fence_xid: transaction number drawn one turn after ``fence``; 0 before that.
        greatest: greatest landed number.
        filenode: filenode of the sequence that draws the numbers, or 0. A different one means that the sequence was
            reset.
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
        """Read the bookmark; return an empty one before the first turn."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Write the bookmark atomically."""
        text = json.dumps(asdict(self))
        land_file(path, lambda part: _write(part, text))


def bookmark_path(root: Path, spec: AuditLog) -> Path:
    """Return the path of a log's bookmark."""
    return root / f".{spec.log}.bookmark.json"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


FILE_RECORDS: Final = 100_000
"""Maximum number of records in a landing file."""


class Writer:
    """Writer of landing files: each table has its folder, each file at most ``FILE_RECORDS`` records."""

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
        """Write the remaining records."""
        for table in [*self._held]:
            self._write(table)

    def _write(self, table: str) -> None:
        rows = self._held.pop(table)
        arrays = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        records = pa.Table.from_arrays(arrays, schema=self._schema)
        name = f"{self._turn:09}-{rows[0][0].zfill(20)}.parquet"
        land_file(self._root / table / name, lambda path: pq.write_table(records, path, compression="zstd"))
        note_landed(self._root / table, [name])
        self.files += 1


def turn_of(file: Path) -> int:
    """Return the number of the turn that landed a file."""
    return int(file.name.partition("-")[0])
