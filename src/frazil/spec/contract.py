"""Fields and columns of a table, as far as the declaration alone defines them.

"Declared" columns are those of the contract without a final ``"*"``. A contract without ``"*"`` is "closed": other
names are mistakes. The "layout" is the list of fields of headerless files.

"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from frazil.spec.model.column import Column
from frazil.spec.model.mart import Current, History
from frazil.spec.model.types import TIMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.spec.model.mart import Mart
    from frazil.spec.model.source import TableSpec
    from frazil.spec.model.types import OnChange

REST: Final = "*"
"""The last entry of ``columns``: all undeclared fields."""

OWN_PREFIX: Final = "_cdc_"
"""Prefix of Frazil's bookkeeping columns."""

PREVIOUS: Final = "prev_"
"""Prefix of columns with the value of a key before a change of key."""

ICEBERG_RESERVED: Final = frozenset(
    {"_file", "_pos", "_deleted", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number"}
)
"""Column names that Iceberg writes but cannot read."""


def added_columns(mart: Mart) -> dict[str, str]:
    """Return the columns that a mart adds to the contract, with their types, without bookkeeping."""
    match mart:
        case Current(deletes="soft"):
            return {"is_deleted": "boolean", "deleted_at": "timestamp"}
        case Current():
            return {}
        case History():
            times = {"valid_from": "timestamp", "valid_to": "timestamp"}
            known = {"known_from": "timestamp", "known_to": "timestamp"} if mart.bitemporal else {}
            return {**times, "is_current": "boolean", "is_deleted": "boolean", **known}


def declared_columns(table: TableSpec) -> dict[str, Column]:
    """Return the declared columns by name, in order, followed by the source's own fields that order changes."""
    columns = {column.name: column for column in table.columns or () if column.name != REST}
    own = table.source.own_fields
    for name in dict.fromkeys((*table.sequence_by, *filter(None, [event_time(table)]))):
        if name not in columns and name in own:
            columns[name] = Column(name=name, type=own[name])
    return columns


def previous_keys(table: TableSpec) -> dict[str, str]:
    """Return each declared column with the previous value of a key -> the column of that key."""
    if table.source.before_prefix is None:
        return {}
    keys = {f"{PREVIOUS}{key}".lower(): key for key in table.keys}
    return {
        column.name: keys[column.name.lower()]
        for column in table.columns or ()
        if column.expr is None and column.name.lower() in keys
    }


def event_time(table: TableSpec) -> str | None:
    """Return the column with the event time of history; None if only the files can tell.

    The column is ``effective_at``, else the first time in ``sequence_by``, else the source's own time if a mart needs
    one.
    """
    if table.effective_at is not None:
        return table.effective_at
    types = dict(table.source.own_fields) | {column.name: column.type for column in table.columns or ()}
    for name in table.sequence_by:
        if types.get(name) in TIMES:
            return name
    # A column that only the files know may be a time.
    if any(name not in types for name in table.sequence_by):
        return None
    return table.source.event_time if any(map(added_columns, table.marts)) else None


def is_closed(table: TableSpec) -> bool:
    """Return whether the contract consists of the declared columns only."""
    return table.columns is not None and all(column.name != REST for column in table.columns)


def on_new_column(table: TableSpec) -> OnChange:
    """Return the policy for fields that are new at the source."""
    return table.evolution.on_new_column or ("keep" if is_closed(table) else "evolve")


def final_names(table: TableSpec) -> dict[str, str]:
    """Return old field name in lower case -> current name, for each renamed field."""
    finals: dict[str, str] = {}
    lower = {old.lower(): new for old, new in table.renames.items()}
    for old, first in lower.items():
        new, seen = first, {old}
        while new.lower() in lower and new.lower() not in seen:
            seen.add(new.lower())
            new = lower[new.lower()]
        finals[old] = new
    return finals


def is_headerless(table: TableSpec) -> bool:
    """Return whether some files of the source do not name their fields."""
    return table.source.field_names(()) is not None


def layout(table: TableSpec) -> tuple[str, ...] | None:
    """Return the fields of headerless files in order, without the op column; None if all files name their fields."""
    own = tuple(name for name, column in declared_columns(table).items() if column.expr is None)
    fields: tuple[str, ...] | None = table.source.field_names(own)
    return fields


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in lower case: Spark ignores case in names."""
    return [name for name, count in Counter(name.lower() for name in names).items() if count > 1]
