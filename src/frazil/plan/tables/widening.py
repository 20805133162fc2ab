"""Declared changes that keep all rows: wider types, renamed columns, and columns without any value so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.spec.contract import REST, final_names, previous_keys
from frazil.spec.model.types import keeps_values, plain_type, widens

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from frazil.silver.contract import Contract
    from frazil.spec import Table


def later_columns(table: Table, bronze: Mapping[str, Any], made: Mapping[str, Any]) -> frozenset[str]:
    """Return the declared columns, in lower case, whose field no record of a table has so far.

    Earlier changes do not carry such a field, so adding the column keeps all rows. Columns that are not nullable, and
    columns with an ``expr``, are left out.

    Args:
        table: the declaration.
        bronze: bronze's bookmark, with current field names.
        made: the bookmark of the table.
    """
    if table.evolution.on_missing_column == "quarantine":
        return frozenset()
    source = table.source
    known = {name.lower() for name in (REST, *source.own_fields, *source.made_columns, *previous_keys(table))}
    since = {name.lower(): batch for name, batch in bronze.get("since", {}).items()}
    known |= {name for name in map(str.lower, bronze.get("fields", {})) if since.get(name, 0) <= made.get("batch", 0)}
    plain = [column for column in table.columns or () if column.expr is None and column.nullable]
    return frozenset(column.name.lower() for column in plain) - known


def as_made(table: Table, present: Mapping[str, str], later: Collection[str] = ()) -> Table:
    """Return a declaration with the narrower types and former names that a table of the lake still has.

    If its fingerprint equals that of the table, only wider, renamed and later columns changed, and all rows stay valid.

    Args:
        table: the declaration.
        present: column -> type of the table; empty for a table that does not exist or must not stay.
        later: columns to leave out, see :func:`later_columns`.
    """
    if later:
        kept = tuple(column for column in table.columns or () if column.name.lower() not in later)
        table = table.model_copy(update={"columns": kept})
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
    """Return a declaration before renames; ``former`` is current name -> former name."""

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
    """Return the reason to rebuild rows because a column has another type; None if they can stay.

    Rows are rebuilt for a type that cannot be reached by widening, and for a ``double`` that was a rounded ``float``.
    """
    types = {name.lower(): plain_type(kind) for name, kind in present.items()}
    for column in contract.columns:
        have, wanted = types.get(column.name.lower()), plain_type(column.type)
        if have is not None and have != wanted and (have == "float" or not widens(have, wanted)):
            return f"{column.name} is a {column.type} now"
    return None
