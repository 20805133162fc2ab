"""Filters of the records in a file: by table, or without erased ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TABLE_FIELD, SCHEMA_FIELD = "_cdc_table", "_cdc_schema"
"""Names of the second and third field of a file with many tables that does not name them, while it is read."""

UNNAMED: Final = (TABLE_FIELD, SCHEMA_FIELD)


class OwnFilter(Protocol):
    """Filter of the records in a file."""

    @property
    def names_fields(self) -> bool:
        """Return whether all fields of a record have names."""

    def is_own(self, table: str | None, schema: str | None) -> bool:
        """Return whether a record that names its table so is kept, if it cannot be read otherwise."""

    def among(self, fields: dict[str, Any], rows: Any, *, is_last: bool) -> NDArray[np.bool_]:
        """Return which records are kept, for all of them at once; may add columns to ``fields``.

        Args:
            fields: text columns of n records, in file order.
            rows: their n ordinals in the file.
            is_last: no records of the file are behind them.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecords:
    """Filter of one table's records in a file with many tables.

    Attributes:
        table: the table whose records are kept.
        schema: its schema; None takes any.
        exact: upper and lower case of the table's name count.
        fields: columns with table and schema of a record. Those of :data:`UNNAMED` are the second and third field of
            every record, and are not kept.
    """

    table: str
    schema: str | None
    exact: bool
    fields: tuple[str, str] = UNNAMED

    @property
    def names_fields(self) -> bool:
        """Return whether table and schema are fields like others."""
        return self.fields != UNNAMED

    def is_own(self, table: str | None, schema: str | None) -> bool:
        """Return whether a record with these names is kept."""
        same = table == self.table if self.exact else (table or "").lower() == self.table.lower()
        return same and self.schema in {None, schema}

    def among(self, fields: dict[str, Any], rows: Any, *, is_last: bool) -> NDArray[np.bool_]:
        """Return which records are kept, for all of them at once."""
        del rows, is_last
        tables = fields[self.fields[0]]
        own = equals(tables, self.table) if self.exact else equals(pc.utf8_lower(tables), self.table.lower())
        return own if self.schema is None else own & equals(fields[self.fields[1]], self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotErased:
    """Filter that drops the erased records of a landing file, which have ``mark`` in ``field``."""

    field: str
    mark: str
    names_fields: bool = True

    def is_own(self, table: str | None, schema: str | None) -> bool:
        """Return True: a record that cannot be read is shown."""
        del table, schema
        return True

    def among(self, fields: dict[str, Any], rows: Any, *, is_last: bool) -> NDArray[np.bool_]:
        """Return which records are kept, for all of them at once."""
        del rows, is_last
        return ~equals(fields[self.field], self.mark)


def equals(column: Any, value: str | None) -> NDArray[np.bool_]:
    """Return a mask of the rows where a column equals a value; None matches only NULL."""
    same = column.is_null() if value is None else pc.equal(column, value).fill_null(fill_value=False)
    found: NDArray[np.bool_] = same.to_numpy(zero_copy_only=False)
    return found
