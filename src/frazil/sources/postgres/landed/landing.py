"""The landing folder of a slot: files of changes and of initial rows, and how far they reach.

```text
landing/
├── .frazil-<slot>.json                           which server, and the position that the files reach
└── public.orders/
    ├── load-0000000001A2B3C8/000001.parquet      the rows as they were at a position of the WAL
    ├── reload-0000000001C00000/000001.parquet    the same later: they were read again
    ├── restart-0000000001D00000/000001.parquet   the same where changes before it are missed
    └── 0000000001A2B3C8-0000000001B00000-000001.parquet   its changes committed from one position to another
```

A table's rows appear at once, by the renaming of their folder. The files of a range appear one after the other; which
range it is stands in the state before, so that a capture that died goes on with exactly it.

Positions of the WAL start again where a server is another one than before, or was restored. So each time that a slot is
created again a new era begins, which stands before the positions of it: ``g0001-0000000001A2B3C8`` is after all of the
first era, which is not written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from frazil.sources.capture import land_file, reveal
from frazil.sources.postgres.database.known import Known
from frazil.spec.model.kinds.postgres import table_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

LOAD: Final = "load-"
"""What the name of a folder with initial rows begins with."""

RELOAD: Final = "reload-"
"""The same of rows that were read again."""

RESTART: Final = "restart-"
"""The same of rows that were read again because changes are missed: no change before them is landed any more."""

_LSN_DIGITS: Final = 16
_ERA: Final = "g"
"""Greater than all digits of a position."""

_ERA_DIGITS: Final = 4


NO_TIMELINE: Final = -1
"""One that no server has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureState:
    """How far the files of a slot reach.

    Attributes:
        system: the server's system identifier, which a restored copy does not share.
        database: its name.
        position: all that was committed before this position of the WAL is in the files, or of no declared table.
        until: end of the range whose files are appearing; None where none are.
        tables: the tables whose changes are in the files, as ``schema.table``.
        era: how often the slot was created again.
        timeline: the server's timeline, which changes when another one takes over; 0 where nobody looked,
            ``NO_TIMELINE`` where the server was seen to be restored.
        known: table, as ``schema.table`` -> what it was; a state from before that was kept has none.
        stopped: the tables, as ``schema.table``, that the last turn left as they were.
    """

    system: str
    database: str
    position: int
    until: int | None = None
    tables: tuple[str, ...] = ()
    era: int = 0
    timeline: int = 0
    known: Mapping[str, Known] = field(default_factory=dict)
    stopped: tuple[str, ...] = ()

    def at(self, lsn: int) -> str:
        """Return a position of this era as text that sorts among those of all eras."""
        return place_text(lsn, self.era)


class Landing:
    """The folder."""

    def __init__(self, folder: Path, slot: str) -> None:
        self.folder = folder
        self._state = folder / f".frazil-{slot}.json"

    def state(self) -> CaptureState | None:
        """Return how far the files reach; None before anything was captured."""
        try:
            kept = json.loads(self._state.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        known = {name: Known.parse(table) for name, table in kept.get("known", {}).items()}
        lists = {name: tuple(kept.get(name, ())) for name in ("tables", "stopped")}
        return CaptureState(**kept | lists | {"known": known})

    def level_at(self) -> float | None:
        """Return when the server last had nothing else, in seconds since 1970; None before that was ever so."""
        return self._state.stat().st_mtime if self._state.exists() else None

    def is_level_at(self, moment: float) -> None:
        """Remember that the files have all that the server had at a moment."""
        os.utime(self._state, (moment, moment))

    def keep(self, state: CaptureState) -> None:
        """Keep the state, durably."""
        known = {name: table.as_values() for name, table in state.known.items()}
        text = f"{json.dumps({**asdict(replace(state, known={})), 'known': known})}\n".encode()
        land_file(self._state, lambda path: path.write_bytes(text))

    def table(self, schema: str, name: str) -> Path:
        """Return the folder of a table."""
        return self.folder / table_folder(schema, name)

    def loaded_at(self, schema: str, name: str) -> str | None:
        """Return the position, as text, from which on a table's changes are landed; None where its rows were not."""
        found = [
            entry.name.removeprefix(prefix)
            for prefix in (LOAD, RESTART)
            for entry in self.table(schema, name).glob(f"{prefix}*")
            if entry.is_dir()
        ]
        return max(found, default=None)

    def is_whole(self, places: Iterable[tuple[str, str]]) -> bool:
        """Return whether the files of some tables, each as schema and name, reach one position: that of the state."""
        state = self.state()
        if state is None or state.until is not None:
            return False
        reached = state.at(state.position)
        for place in places:
            full = ".".join(place)
            if full not in state.tables or full in state.stopped:
                return False
            rows = [
                entry.name.partition("-")[2]
                for prefix in (LOAD, RELOAD, RESTART)
                for entry in self.table(*place).glob(f"{prefix}*")
            ]
            if self.loaded_at(*place) is None or max(rows) > reached:
                return False
        return True

    def last_era(self) -> int:
        """Return the newest era that any of the files is of."""
        start = re.compile(rf"(?:{LOAD}|{RELOAD}|{RESTART})?{_ERA}(\d{{{_ERA_DIGITS}}})-")
        found = [start.match(entry.name) for entry in self.folder.glob("*/*")]
        return max((int(one[1]) for one in found if one), default=0)

    def clear(self, schema: str, name: str) -> None:
        """Remove what a capture that died left unfinished of a table."""
        for entry in self.table(schema, name).glob(".*"):
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def new_load(self, schema: str, name: str) -> Path:
        """Return an empty folder that nobody reads yet."""
        folder = self.unfinished_load(schema, name)
        folder.mkdir(parents=True)
        return folder

    def unfinished_load(self, schema: str, name: str) -> Path:
        """Return the folder that a table's rows are written to before they appear."""
        return self.table(schema, name) / f".{LOAD}unfinished"

    def show_load(self, folder: Path, name: str) -> None:
        """Let rows of a table appear, which are whole in ``folder``, under a name."""
        for file in folder.iterdir():
            with file.open("rb+") as written:
                os.fsync(written.fileno())
        reveal(folder, folder.with_name(name))


def range_name(start: str, end: int, number: int) -> str:
    """Return the name of a file of changes."""
    return f"{start}-{hex_lsn(end)}-{number:06}.parquet"


def place_text(lsn: int, era: int) -> str:
    """Return a position of the WAL in an era as text that sorts."""
    return f"{_ERA}{era:0{_ERA_DIGITS}}-{hex_lsn(lsn)}" if era else hex_lsn(lsn)


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
