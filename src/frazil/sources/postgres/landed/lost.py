"""A landing folder that was lost, or is that of another host: known by what bronze has and the folder lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from frazil.sources.postgres.errors import SlotLostError
from frazil.sources.postgres.landed.landing import LOAD, RELOAD, RESTART
from frazil.spec.model.kinds.postgres import table_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

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
