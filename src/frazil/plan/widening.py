"""Columns that get a wider type: their rows stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.types import keeps_values, plain_type, widens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.silver.contract import Contract
    from frazil.spec import Table


def as_made(table: Table, present: Mapping[str, str]) -> Table:
    """Return a declaration with the narrower types that a table of the lake still has.

    Where its fingerprint is that of the table, wider columns are all that changed, and every row is as it would be made
    now.

    Args:
        table: the declaration.
        present: column -> type of the table; empty for a table that is not there, or may not stay.
    """
    types = {name.lower(): plain_type(kind) for name, kind in present.items()}
    columns = [
        column.model_copy(update={"type": types[column.name.lower()]})
        if column.name.lower() in types and keeps_values(types[column.name.lower()], column.type)
        else column
        for column in table.columns or ()
    ]
    return table if table.columns is None else table.model_copy(update={"columns": tuple(columns)})


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
