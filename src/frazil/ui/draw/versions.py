"""Rows of marts as spans with a colour and a few words for what differs between them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.ui.text import value_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Row: TypeAlias = "dict[str, Any]"

ADDED: Final = frozenset({"valid_from", "valid_to", "known_from", "known_to", "is_current", "is_deleted", "deleted_at"})
"""Columns that marts add."""
COLOURS: Final = 6
_WORDS: Final = 2


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours and words for the rows of one key.

    Attributes:
        columns: the columns whose values differ, or all if none do.
        known: values of these columns -> number of their colour.
    """

    columns: tuple[str, ...]
    known: dict[tuple[str, ...], int]

    @classmethod
    def of(cls, rows: Sequence[Row], hidden: Collection[str]) -> Palette:
        """Look at all rows of a key; ``hidden`` are keys, columns of the order and those with personal data."""
        names = [
            name
            for name in dict.fromkeys(name for row in rows for name in row)
            if name not in ADDED and name not in hidden and not name.startswith("_cdc_")
        ]
        varied = [name for name in names if len({value_text(row[name]) for row in rows if name in row}) > 1]
        return cls(columns=tuple(varied or names[:_WORDS]), known={})

    def colour(self, row: Row) -> int:
        """Return the number of a row's colour: equal values have one colour in all marts."""
        return self.known.setdefault(self._values(row), len(self.known)) % COLOURS

    def words(self, row: Row, before: Row | None = None) -> str:
        """Return the first values of a row that differ from the row before it."""
        new = [name for name in self.columns if name in row and (before is None or before.get(name) != row[name])]
        named = new or [name for name in self.columns if name in row]
        return " · ".join(f"{name} {value_text(row[name], 40)}" for name in named[:_WORDS])

    def _values(self, row: Row) -> tuple[str, ...]:
        return tuple(value_text(row.get(name)) for name in self.columns)


def time_in(row: Row, name: str) -> dt.datetime | None:
    """Return a time of a row in UTC; None where it has none."""
    value = row.get(name)
    if not isinstance(value, dt.datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)
