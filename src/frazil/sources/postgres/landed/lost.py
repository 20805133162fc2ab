"""Landing folders and files that were lost: known by what bronze has, or a capture noted, and is not there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from frazil.sources.landed_files import lost_files, lost_message
from frazil.sources.postgres.errors import SlotLostError
from frazil.sources.postgres.landed.landing import LOAD, RELOAD, RESTART
from frazil.spec.location import locate
from frazil.spec.model.kinds.postgres import table_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from frazil.spec import Table


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


def verify_files(table: Table, folder: Path, taken: Collection[str]) -> None:
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
