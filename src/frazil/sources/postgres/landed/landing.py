"""The landing folder of a slot: files of changes, files of initial rows, and the state of the capture.

```text
landing/
├── .frazil-<slot>.json                           server, and position that the files reach
└── public.orders/
    ├── load-0000000001A2B3C8/000001.parquet      the rows as they were at a position of the WAL
    ├── reload-0000000001C00000/000001.parquet    the rows read again later
    ├── restart-0000000001D00000/000001.parquet   the rows read again after changes were missed
    └── 0000000001A2B3C8-0000000001B00000-000001.parquet   changes committed between two positions
```

The rows of a table appear at once, when their folder is renamed. The files of a range appear one after the other. The
state records the range before that, so that the next capture continues with exactly this range after a crash.

Positions of the WAL start again on another server and after a restore. Each time the slot is recreated, a new era
begins and becomes a prefix of its positions: ``g0001-0000000001A2B3C8`` sorts after all positions of the first era,
which has no prefix.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from frazil.sources.capture import land_file, reveal
from frazil.sources.landed_files import LANDED, lost_files, lost_message, note_landed
from frazil.sources.postgres.database.known import Known
from frazil.sources.postgres.errors import SlotLostError
from frazil.spec.location import locate
from frazil.spec.model.kinds.postgres import table_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from frazil.spec import Table

LOAD: Final = "load-"
"""Prefix of a folder with initial rows."""

RELOAD: Final = "reload-"
"""Prefix of a folder with rows that were read again."""

RESTART: Final = "restart-"
"""Prefix of a folder with rows that were read again after changes were missed; older changes are not landed."""

_LSN_DIGITS: Final = 16
_ERA: Final = "g"
"""Sorts after all digits of a position."""

_ERA_DIGITS: Final = 4


NO_TIMELINE: Final = -1
"""A timeline that no server has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureState:
    """The state of a capture.

    Attributes:
        system: system identifier of the server.
        database: name of the database.
        position: position of the WAL; the files have all changes of the declared tables committed before it.
        until: end of the range whose files are appearing; None between ranges.
        tables: captured tables, as ``schema.table``.
        era: number of times that the slot was recreated.
        timeline: timeline of the server, which changes on a failover; 0 if unknown, ``NO_TIMELINE`` after a detected
            restore.
        known: ``schema.table`` -> definition of the table; empty in the state of older versions.
        stopped: tables, as ``schema.table``, that stopped in the last turn.
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
        """Return a position of this era as text that sorts across all eras."""
        return place_text(lsn, self.era)


class Landing:
    """The landing folder of a slot."""

    def __init__(self, folder: Path, slot: str) -> None:
        self.folder = folder
        self._state = folder / f".frazil-{slot}.json"

    def state(self) -> CaptureState | None:
        """Return the state of the capture; None before the first capture."""
        try:
            kept = json.loads(self._state.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        known = {name: Known.parse(table) for name, table in kept.get("known", {}).items()}
        lists = {name: tuple(kept.get(name, ())) for name in ("tables", "stopped")}
        return CaptureState(**kept | lists | {"known": known})

    def level_at(self) -> float | None:
        """Return when the files were last up to date, in seconds since 1970; None before the first capture."""
        return self._state.stat().st_mtime if self._state.exists() else None

    def is_level_at(self, moment: float) -> None:
        """Record that the files were up to date at ``moment``, in seconds since 1970."""
        os.utime(self._state, (moment, moment))

    def keep(self, state: CaptureState) -> None:
        """Store the state durably."""
        known = {name: table.as_values() for name, table in state.known.items()}
        text = f"{json.dumps({**asdict(replace(state, known={})), 'known': known})}\n".encode()
        land_file(self._state, lambda path: path.write_bytes(text))

    def table(self, schema: str, name: str) -> Path:
        """Return the folder of a table."""
        return self.folder / table_folder(schema, name)

    def loaded_at(self, schema: str, name: str) -> str | None:
        """Return the position, as text, from which a table's changes are landed; None if its rows are not landed."""
        found = [
            entry.name.removeprefix(prefix)
            for prefix in (LOAD, RESTART)
            for entry in self.table(schema, name).glob(f"{prefix}*")
            if entry.is_dir()
        ]
        return max(found, default=None)

    def is_whole(self, places: Iterable[tuple[str, str]]) -> bool:
        """Return True if the files of some tables, given as (schema, name), all reach the position of the state."""
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
        return newest_era(entry.name for entry in self.folder.glob("*/*"))

    def remember(self, schema: str, name: str, *, era: int) -> None:
        """Note that rows of a table were landed elsewhere, in an era: a load without files."""
        (self.table(schema, name) / f"{LOAD}{place_text(0, era)}").mkdir(parents=True, exist_ok=True)

    def clear(self, schema: str, name: str) -> None:
        """Remove unfinished files of a table that a killed capture left."""
        for entry in self.table(schema, name).glob(".*"):
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != LANDED:
                entry.unlink()

    def new_load(self, schema: str, name: str) -> Path:
        """Create and return an empty hidden folder for a table's rows."""
        folder = self.unfinished_load(schema, name)
        folder.mkdir(parents=True)
        return folder

    def unfinished_load(self, schema: str, name: str) -> Path:
        """Return the hidden folder for a table's rows."""
        return self.table(schema, name) / f".{LOAD}unfinished"

    def show_load(self, folder: Path, name: str) -> None:
        """Rename a hidden folder with all rows of a table to its final name."""
        for file in folder.iterdir():
            with file.open("rb+") as written:
                os.fsync(written.fileno())
        names = [f"{name}/{file.name}" for file in folder.iterdir()]
        reveal(folder, folder.with_name(name))
        note_landed(folder.parent, names)


def newest_era(names: Iterable[str]) -> int:
    """Return the newest era that names of landing files, or of folders with rows, are of."""
    start = re.compile(rf"(?:{LOAD}|{RELOAD}|{RESTART})?{_ERA}(\d{{{_ERA_DIGITS}}})-")
    return max((int(one[1]) for one in map(start.match, names) if one), default=0)


def range_name(start: str, end: int, number: int) -> str:
    """Return the name of a file of changes.

    Args:
        start: begin of the range, as sortable text.
        end: end of the range, as a position of the WAL.
        number: number of the file in the range.
    """
    return f"{start}-{hex_lsn(end)}-{number:06}.parquet"


def place_text(lsn: int, era: int) -> str:
    """Return a position of the WAL in an era as sortable text."""
    return f"{_ERA}{era:0{_ERA_DIGITS}}-{hex_lsn(lsn)}" if era else hex_lsn(lsn)


def hex_lsn(lsn: int) -> str:
    """Return a position of the WAL as sortable text."""
    return f"{lsn:0{_LSN_DIGITS}X}"


def server_lsn(lsn: int) -> str:
    """Return a position in the server's notation, such as ``0/1A2B3C8``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """Return a position from the server's notation."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def landed_of(table: Table, paths: Iterable[str]) -> list[str]:
    """Return those of some paths that are landing files of a table, in this landing folder or in another one."""
    name = re.escape(table_folder(*table.source.schema_and_name))
    # Its changes lie in the folder itself, rows that were read in a folder below it.
    own = re.compile(
        rf"(?:.*/)?{name}/(?:(?:{LOAD}|{RELOAD}|{RESTART})[^/]+/\d+|(?:g\d+-)?[0-9A-F]+-[0-9A-F]+-\d+)\.parquet"
    )
    return [path for path in paths if own.fullmatch(path)]


def lost_landing(table: Table, place: str) -> SlotLostError:
    """Return the error that a landing folder is not the one that the lake was made of; ``place`` is that of a table."""
    return SlotLostError(
        f"table {table.name!r}: the lake has files of {place} that are not there: the landing folder was lost or "
        "replaced; changes may be missing",
        hint=f"restore the landing folder; or read all rows again: frazil capture --reload {table.name}",
    )


def verify_landing(table: Table, folder: Path, taken: Collection[str]) -> None:
    """Refuse a landing folder without files that were landed and not taken; ``folder`` is the declaration's.

    Raises:
        SlotLostError: the message names the first file.
    """
    root = locate(table.source.landing, setting="landing", folder=folder).path
    if root is None:
        return
    place = root / table_folder(*table.source.schema_and_name)
    if lost := lost_files(place, taken):
        raise SlotLostError(
            lost_message(table.name, place, lost, folder),
            hint=f"put it back; or read all rows again: frazil capture --reload {table.name}",
        )
