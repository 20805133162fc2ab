"""Refuse records of several tables where the declaration does not say which of them is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frazil.sources.base import NewFile
    from frazil.spec import Table

NAMES: Final = "tables"
"""Key of bronze's bookmark."""

ALL: Final = "*"
"""Value of ``table`` that takes the records of every table."""

_SHOWN: Final = 5


class SecondTableError(SourceError):
    """The records of a source belong to several tables."""

    code = "FZ215"
    retryable = False

    def __init__(self, table: str, names: list[str]) -> None:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        super().__init__(
            f"table {table!r}: its records are of several tables: {', '.join(names[:_SHOWN])}{more}; nothing was taken",
            hint=f"declare the one that is meant: table: {names[0]}; or, if all are parts of one table: table: '{ALL}'",
        )


def known_names(table: Table, bronze: Mapping[str, Any], files: Iterable[NewFile]) -> dict[str, list[str]]:
    """Return the table names in bronze's records and in new files.

    Args:
        table: the declaration.
        bronze: bronze's bookmark; may be empty.
        files: new files.

    Returns:
        Shard, or empty text -> the one name of its records. Shards without a name are left out.

    Raises:
        SecondTableError: records have different names, and the source does not declare ``table``.
    """
    names: dict[str, list[str]] = {variant: [*known] for variant, known in bronze.get(NAMES, {}).items()}
    for file in files:
        if file.tables:
            found = names.setdefault(file.variant, [])
            found += [name for name in file.tables if name not in found]
    for found in names.values():
        if len(found) > 1:
            raise SecondTableError(table.name, found)
    return names
