"""The difference between tables and their declaration: alterations, changes that keep all rows, others' changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frazil.errors import HistoryChangedError, SchemaError
from frazil.plan.layout import BRONZE, QUARANTINE, SILVER, made_layout
from frazil.spec.contract import REST, final_names, previous_keys
from frazil.spec.model.types import keeps_values, plain_type, widens
from frazil.steps import AddColumn, RemoveProperty, RenameColumn, SetLiveView, SetProperty, SetSortOrder, WidenColumn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from frazil.plan.layout import TableLayout
    from frazil.silver.contract import Contract
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
    :func:`frazil.lake.tables.replace_table`.
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
        wanted: layout of each table by its key, see :mod:`frazil.plan.layout`.
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


class AlteredTableError(HistoryChangedError):
    """Another engine renamed or dropped columns of bronze, which cannot be rebuilt."""

    code = "FZ710"


def altered_tables(table: Table, altered: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the tables to rebuild after such changes -> the reason.

    Declared renames that are applied but not committed yet do not count.

    Args:
        table: the declaration.
        altered: altered columns by ``BRONZE``, ``SILVER``, ``QUARANTINE`` and names of marts; see
            :attr:`frazil.iceberg.snapshot.TableSnapshot.altered`.

    Raises:
        AlteredTableError: columns of bronze were altered.
    """
    if altered.get(BRONZE):
        raise AlteredTableError(
            f"bronze of table {table.name!r}: {said_of(altered[BRONZE])}",
            hint="give a renamed column its name back; a dropped one is lost: take the files again, with frazil drop "
            f"--select {table.name}, then frazil run",
        )
    finals = {old: new.lower() for old, new in final_names(table).items()}
    found = {}
    for name, columns in altered.items():
        others = {old: new for old, new in columns.items() if finals.get(old.lower()) != new.lower()}
        if others:
            found[SILVER if name == QUARANTINE else name] = said_of(others)
    return found


def said_of(altered: Mapping[str, str]) -> str:
    """Describe altered columns."""
    each = (f"renamed {old} to {new}" if new else f"dropped {old}" for old, new in sorted(altered.items()))
    return f"another engine {', '.join(each)}"


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


def retyped(contract: Contract, present: Mapping[str, str], *, waits: bool = False) -> str | None:
    """Return the reason to rebuild rows because a column has another type; None if they can stay.

    Rows are rebuilt for a type that cannot be reached by widening, for a ``double`` that was a rounded ``float``, and
    for any other type if records wait for it.

    Args:
        contract: the settled columns.
        present: column -> type of silver.
        waits: records are in quarantine because their field has a type that its column does not hold.
    """
    types = {name.lower(): plain_type(kind) for name, kind in present.items()}
    for column in contract.columns:
        have, wanted = types.get(column.name.lower()), plain_type(column.type)
        if have is not None and have != wanted and (waits or have == "float" or not widens(have, wanted)):
            return f"{column.name} is a {column.type} now"
    return None
