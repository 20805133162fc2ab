"""What differs between the tables of the lake and their declaration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frazil.plan.tables.alterations import TypeChangedError, alterations, fits, settings_alterations
from frazil.plan.tables.layout import made_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.plan.tables.layout import TableLayout
    from frazil.spec import Table
    from frazil.steps import Alteration


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What differs between a table and its declaration.

    Attributes:
        name: namespace and name of the table.
        changes: what to alter.
        fits: altered, the table has just the declared columns and partitions; otherwise it is replaced where all of its
            rows are written.
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
        columns: of tables that exist: key -> name -> type. Columns of the others are not compared.
        bookmarks: key -> bookmark; those of marts note how their tables were laid out.

    Returns:
        Only tables that differ.
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
