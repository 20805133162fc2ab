"""The landing folder of a slot: files of changes and of initial rows, and how far they reach.

```text
landing/
├── .frazil-<slot>.json                           which server, and the position that the files reach
└── public.orders/
    ├── load-0000000001A2B3C8/000001.parquet      the rows as they were at a position of the WAL
    └── 0000000001A2B3C8-0000000001B00000-000001.parquet   its changes committed from one position to another
```

A table's rows appear at once, by the renaming of their folder. The files of a range appear one after the other; which
range it is stands in the state before, so that a capture that died goes on with exactly it.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from frazil.sources.capture import land_file, reveal
from frazil.spec.kinds.postgres import table_folder

if TYPE_CHECKING:
    from pathlib import Path

LOAD: Final = "load-"
"""What the name of a folder with initial rows begins with."""

_LSN_DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far the files of a slot reach.

    Attributes:
        system: the server's system identifier, which a restored copy does not share.
        database: its name.
        position: all that was committed before this position of the WAL is in the files, or of no declared table.
        until: end of the range whose files are appearing; None where none are.
        tables: the tables whose changes are in the files, as ``schema.table``.
    """

    system: str
    database: str
    position: int
    until: int | None = None
    tables: tuple[str, ...] = ()


class Landing:
    """The folder."""

    def __init__(self, folder: Path, slot: str) -> None:
        self.folder = folder
        self._state = folder / f".frazil-{slot}.json"

    def state(self) -> State | None:
        """Return how far the files reach; None before anything was captured."""
        try:
            kept = json.loads(self._state.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return State(**kept | {"tables": tuple(kept["tables"])})

    def level_at(self) -> float | None:
        """Return when the server last had nothing else, in seconds since 1970; None before that was ever so."""
        return self._state.stat().st_mtime if self._state.exists() else None

    def is_level_at(self, moment: float) -> None:
        """Remember that the files have all that the server had at a moment."""
        os.utime(self._state, (moment, moment))

    def keep(self, state: State) -> None:
        """Keep the state, durably."""
        text = f"{json.dumps(asdict(state))}\n".encode()
        land_file(self._state, lambda path: path.write_bytes(text))

    def table(self, schema: str, name: str) -> Path:
        """Return the folder of a table."""
        return self.folder / table_folder(schema, name)

    def loaded_at(self, schema: str, name: str) -> int | None:
        """Return the position of a table's initial rows; None where they were not landed."""
        found = [entry.name for entry in self.table(schema, name).glob(f"{LOAD}*") if entry.is_dir()]
        return int(found[0].removeprefix(LOAD), 16) if found else None

    def clear(self, schema: str, name: str) -> None:
        """Remove what a capture that died left unfinished of a table."""
        for entry in self.table(schema, name).glob(".*"):
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def new_load(self, schema: str, name: str) -> Path:
        """Return an empty folder that nobody reads yet."""
        folder = self.table(schema, name) / f".{LOAD}unfinished"
        folder.mkdir(parents=True)
        return folder

    def show_load(self, folder: Path, lsn: int) -> None:
        """Let a table's initial rows appear, which are whole in ``folder``."""
        for file in folder.iterdir():
            with file.open("rb+") as written:
                os.fsync(written.fileno())
        reveal(folder, folder.with_name(f"{LOAD}{hex_lsn(lsn)}"))


def range_name(start: int, end: int, number: int) -> str:
    """Return the name of a file of changes."""
    return f"{hex_lsn(start)}-{hex_lsn(end)}-{number:06}.parquet"


def hex_lsn(lsn: int) -> str:
    """Return a position of the WAL as text that sorts."""
    return f"{lsn:0{_LSN_DIGITS}X}"


def server_lsn(lsn: int) -> str:
    """Return a position as the server writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """Return a position that the server wrote."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
