"""Words for operations that are a tool's own, and rows that are only the image before an update."""

from __future__ import annotations

from typing import Final

BEFORE_IMAGE: Final = "before image"
"""A row that is no change of its own: the next record is the update of it."""

_SQL_SERVER: Final = {"1": "delete", "2": "insert", "3": BEFORE_IMAGE, "4": "update", "5": "upsert"}
_QLIK: Final = {"B": BEFORE_IMAGE}
_CHANGE_FEED: Final = {"update_preimage": BEFORE_IMAGE, "update_postimage": "update"}


def words_of(field: str) -> dict[str, str]:
    """Return the words that only the tool uses which calls its op field so; other words mean what they say.

    ``__$operation`` is that of SQL Server's change tables, ``header__change_oper`` of Qlik Replicate (with any prefix),
    ``_change_type`` of a change data feed of Delta.
    """
    name = field.lower()
    if name == "__$operation":
        return _SQL_SERVER
    if name.endswith("change_oper"):
        return _QLIK
    return _CHANGE_FEED if name == "_change_type" else {}


def said_by(field: str, word: str) -> str:
    """Return a word of an op field in the words of all tools."""
    return words_of(field).get(word.strip(), word)
