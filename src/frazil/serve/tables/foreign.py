"""What other engines have done to a table so that its rows say nothing any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.iceberg.foreign import verify_bookmark
from frazil.plan.tables.altered import AlteredTableError, altered_tables
from frazil.plan.tables.layout import BRONZE

if TYPE_CHECKING:
    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.spec import Table


def verify_foreign(table: Table, name: str, found: TableSnapshot, *, is_bronze: bool) -> None:
    """Refuse a table of the lake that does not say what it holds, or of which columns were renamed or dropped.

    Args:
        table: the declaration that it is made of.
        name: its own, with the namespace.
        found: where it stands.
        is_bronze: it is made of files, not of other tables.

    Raises:
        BookmarkLostError: it does not say which batches it holds.
        AlteredTableError: columns of it were renamed or dropped.
    """
    verify_bookmark(name, found, table=table.name, is_bronze=is_bronze)
    for why in altered_tables(table, {BRONZE if is_bronze else name: found.altered}).values():
        raise AlteredTableError(f"{name}: {why}", hint="frazil run rebuilds it")
