"""Columns that another engine renamed or dropped: by name they would look new, and be NULL in every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import HistoryChangedError
from frazil.plan.tables.layout import BRONZE, QUARANTINE, SILVER
from frazil.spec.contract import final_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.spec import Table


class AlteredTableError(HistoryChangedError):
    """Another engine renamed or dropped columns of bronze, which cannot be rebuilt."""

    code = "FZ710"


def altered_tables(table: Table, altered: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the tables to rebuild after such changes -> the reason.

    Declared renames that are applied but not committed yet do not count.

    Args:
        table: the declaration.
        altered: altered columns by ``BRONZE``, ``SILVER``, ``QUARANTINE`` and names of marts; see
            :attr:`frazil.iceberg.snapshot.TableSnapshot.altered`.

    Raises:
        AlteredTableError: columns of bronze were altered.
    """
    if altered.get(BRONZE):
        raise AlteredTableError(
            f"bronze of table {table.name!r}: {said_of(altered[BRONZE])}",
            hint="give a renamed column its name back; a dropped one is lost: take the files again, with frazil drop "
            f"--select {table.name}, then frazil run",
        )
    finals = {old: new.lower() for old, new in final_names(table).items()}
    found = {}
    for name, columns in altered.items():
        others = {old: new for old, new in columns.items() if finals.get(old.lower()) != new.lower()}
        if others:
            found[SILVER if name == QUARANTINE else name] = said_of(others)
    return found


def said_of(altered: Mapping[str, str]) -> str:
    """Describe altered columns."""
    each = (f"renamed {old} to {new}" if new else f"dropped {old}" for old, new in sorted(altered.items()))
    return f"another engine {', '.join(each)}"
