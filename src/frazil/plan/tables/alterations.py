"""The difference between a table and its declaration, as alterations: a pure function of both layouts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frazil.errors import SchemaError
from frazil.plan.tables.layout import made_layout
from frazil.spec.model.types import plain_type, widens
from frazil.steps import AddColumn, RemoveProperty, RenameColumn, SetLiveView, SetProperty, SetSortOrder, WidenColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.plan.tables.layout import TableLayout
    from frazil.spec import Table
    from frazil.steps import Alteration


class TypeChangedError(SchemaError):
    """A declared type differs from the type in the table, and the data would need a conversion."""

    code = "FZ503"


def alterations(present: TableLayout, wanted: TableLayout) -> tuple[Alteration, ...]:
    """Return what to alter, in order: names of columns, columns, sort order, properties, live view.

    Columns are added, ``int`` and ``float`` columns and decimal precisions are widened. Removed columns stay.
    Partitions are not compared: a table with other partitions is rewritten.

    Raises:
        TypeChangedError: a column has a type that cannot be widened to the wanted one.
    """
    columns = _renamed(present.columns, wanted)
    renames = [
        RenameColumn(column=old, name=new) for old, new in zip(present.columns, columns, strict=True) if old != new
    ]
    return (*renames, *_columns(columns, wanted), *_settings(present, wanted))


def _renamed(present: Mapping[str, str], wanted: TableLayout) -> dict[str, str]:
    """Return the columns of a table by their new names; a column keeps its name if the new one exists."""
    names = {name.lower() for name in present}
    return {
        name if (now := wanted.renames.get(name.lower(), name)).lower() in names else now: kind
        for name, kind in present.items()
    }


def settings_alterations(present: TableLayout, wanted: TableLayout) -> tuple[Alteration, ...]:
    """Return the alterations except those of columns, for a table that is replaced with its columns."""
    return tuple(_settings(present, wanted))


def fits(present: Mapping[str, str], wanted: TableLayout) -> bool:
    """Return whether alterations can give a table exactly the wanted columns.

    Otherwise it has columns that are not wanted, or types that cannot be widened, and is replaced: see
    :func:`frazil.lake.replace.replace_table`.
    """
    types = {column.lower(): kind for column, kind in wanted.columns.items()}
    columns = _renamed(present, wanted)
    return all(column.lower() in types and _reaches(have, types[column.lower()]) for column, have in columns.items())


def changed_types(present: Mapping[str, str], wanted: TableLayout) -> str:
    """Return which columns have types that no widening brings to the wanted ones, as a reason to rebuild; or nothing.

    If the declaration is the one that the table was made by, another engine changed them.
    """
    types = {column.lower(): kind for column, kind in wanted.columns.items()}
    found = [
        f"{column} from {types[column.lower()]} to {have}"
        for column, have in _renamed(present, wanted).items()
        if column.lower() in types and not _reaches(have, types[column.lower()])
    ]
    return f"another engine changed the type of {', '.join(found)}" if found else ""


def _columns(present: Mapping[str, str], wanted: TableLayout) -> Iterator[Alteration]:
    types = {column.lower(): kind for column, kind in present.items()}
    for column, kind in wanted.columns.items():
        have = types.get(column.lower())
        if have is None:
            yield AddColumn(column=column, type=kind)
        elif not _reaches(have, kind):
            raise TypeChangedError(
                f"{wanted.name}: column {column!r} is {have} in the table and {kind} in the declaration",
                hint=f"declare it as {have}, or rebuild the table: frazil run --full-refresh",
            )
        elif plain_type(have) != plain_type(kind):
            yield WidenColumn(column=column, before=have, type=kind)


def _settings(present: TableLayout, wanted: TableLayout) -> Iterator[Alteration]:
    if tuple(present.sort_by) != tuple(wanted.sort_by):
        yield SetSortOrder(columns=tuple(wanted.sort_by))
    before, after = present.all_properties, wanted.all_properties
    for name, value in after.items():
        if before.get(name) != value:
            yield SetProperty(name=name, value=value)
    for name in sorted(before.keys() - after.keys()):
        yield RemoveProperty(name=name)
    if present.live_view != wanted.live_view:
        yield SetLiveView(before=present.live_view, after=wanted.live_view)


def _reaches(have: str, want: str) -> bool:
    return plain_type(have) == plain_type(want) or widens(have, want)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """The difference between a table and its declaration.

    Attributes:
        name: namespace and name of the table.
        changes: the alterations.
        fits: after the alterations, the table has exactly the declared columns and partitions; otherwise a full write
            replaces it.
    """

    name: str
    changes: tuple[Alteration, ...]
    fits: bool


def table_changes(
    table: Table,
    wanted: Mapping[str, TableLayout],
    columns: Mapping[str, Mapping[str, str]],
    bookmarks: Mapping[str, Mapping[str, Any]],
) -> dict[str, TableChange]:
    """Compare tables with their wanted layouts.

    Args:
        table: the declaration.
        wanted: layout of each table by its key, see :mod:`frazil.plan.tables.layout`.
        columns: key -> name -> type, for existing tables; columns of other tables are not compared.
        bookmarks: key -> bookmark; those of marts have the layout of their tables.

    Returns:
        Key -> difference, for tables that differ.
    """
    marts = {table.mart_name(mart): mart for mart in table.marts}
    found: dict[str, TableChange] = {}
    for key, layout in wanted.items():
        noted = bookmarks.get(key, {}).get("layout")
        made = layout if noted is None else made_layout(layout, marts[key], noted)
        present = replace(made, columns=columns.get(key) or layout.columns)
        does_fit = fits(present.columns, layout) and [*present.partition_by] == [*layout.partition_by]
        try:
            changes = alterations(present, layout)
        except TypeChangedError:  # a rebuild replaces the table; without one the run says so
            changes = settings_alterations(present, layout)
        if changes:
            found[key] = TableChange(name=layout.name, changes=changes, fits=does_fit)
    return found
