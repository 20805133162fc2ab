"""Tables that other engines wrote, or whose history they expired, so that nothing says what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import HistoryChangedError

if TYPE_CHECKING:
    from frazil.iceberg.snapshot import TableSnapshot


class BookmarkLostError(HistoryChangedError):
    """A table has rows and no snapshot that says which changes they hold."""

    code = "FZ702"


def verify_bookmark(name: str, found: TableSnapshot, *, table: str, is_bronze: bool = False) -> None:
    """Refuse a table that has rows and does not say which changes they hold.

    Args:
        name: of the table of the lake.
        found: where it stands.
        table: the source table that it is made of, for the way out.
        is_bronze: it is made of files, not of other tables.

    Raises:
        BookmarkLostError: the table has a snapshot, and no ancestor of it carries a bookmark.
    """
    if found.bookmark or found.snapshot_id is None or found.summary.get("total-records") == "0":
        return
    raise BookmarkLostError(
        f"{name} has rows and no bookmark: something else wrote it, or expired its history",
        hint=f"roll it back to a snapshot with a bookmark; or take the files again: frazil drop --select {table}, then "
        "frazil run"
        if is_bronze
        else f"run: frazil rebuild --select {table}, which rebuilds silver and marts from bronze",
    )
