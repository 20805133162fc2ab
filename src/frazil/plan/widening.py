"""Columns that get a wider type: their rows stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.contract import final_names
from frazil.spec.types import keeps_values, plain_type, widens

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from frazil.silver.contract import Contract
    from frazil.spec import Table


def as_made(table: Table, present: Mapping[str, str]) -> Table:
    """Return a declaration with the narrower types, and the former names, that a table of the lake still has.

    Where its fingerprint is that of the table, wider and renamed columns are all that changed, and every row is as it
    would be made now.

    Args:
        table: the declaration.
        present: column -> type of the table; empty for a table that is not there, or may not stay.
    """
    types = {name.lower(): plain_type(kind) for name, kind in present.items()}
    finals = final_names(table)
    former = {now: name for name in present if (now := finals.get(name.lower())) and now.lower() not in types}
    if former:
        table = _with_former_names(table, former, {*types})
    columns = [
        column.model_copy(update={"type": types[column.name.lower()]})
        if column.name.lower() in types and keeps_values(types[column.name.lower()], column.type)
        else column
        for column in table.columns or ()
    ]
    return table if table.columns is None else table.model_copy(update={"columns": tuple(columns)})


def _with_former_names(table: Table, former: Mapping[str, str], present: Collection[str]) -> Table:
    """Return a declaration as it was before fields were renamed; ``former``: name now -> name before."""

    def names(some: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if some is None else tuple(former.get(name, name) for name in some)

    tracks = ("track_history_columns", "track_history_except_columns")
    marts = [
        mart.model_copy(update={track: names(getattr(mart, track)) for track in tracks if hasattr(mart, track)})
        for mart in table.marts
    ]
    columns = [
        column.model_copy(update={"name": former.get(column.name, column.name)}) for column in table.columns or ()
    ]
    return table.model_copy(
        update={
            "columns": None if table.columns is None else tuple(columns),
            "sequence_by": names(table.sequence_by),
            "effective_at": former.get(table.effective_at or "", table.effective_at),
            "marts": tuple(marts),
            "renames": {old: new for old, new in table.renames.items() if new.lower() in present},
        }
    )


def retyped(contract: Contract, present: Mapping[str, str]) -> str | None:
    """Return which column has another type now that its rows must be made for; None where they may stay.

    That is a type that no widening reaches, and a ``double`` of which the rows hold rounded values.
    """
    types = {name.lower(): plain_type(kind) for name, kind in present.items()}
    for column in contract.columns:
        have, wanted = types.get(column.name.lower()), plain_type(column.type)
        if have is not None and have != wanted and (have == "float" or not widens(have, wanted)):
            return f"{column.name} is a {column.type} now"
    return None
