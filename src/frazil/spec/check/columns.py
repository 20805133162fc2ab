"""The rules over a table: its contract, keys, order, event time, the retention that builds on them, and its marts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.errors import DeclarationError
from frazil.spec.contract import (
    ICEBERG_RESERVED,
    OWN_PREFIX,
    REST,
    added_columns,
    declared_columns,
    event_time,
    final_names,
    is_closed,
    is_headerless,
    repeated,
)
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.mart import Current, History, partition_transform
from frazil.spec.model.types import TIMES, column_type, is_nested
from frazil.spec.sql.sql import expression_problems, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.column import Column
    from frazil.spec.model.mart import Mart
    from frazil.spec.model.pipeline import Table

_LONGEST_NAME: Final = 255


def column_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of columns, keys, sequence_by and effective_at.

    Args:
        table: the declared table.
        at: path of the table in the declaration.
    """
    yield from _repeated_columns(table, at)
    for index, column in enumerate(table.columns or ()):
        here, whose = (*at, "columns", index), f"column '{column.name}' of table '{table.name}'"
        if column.name == REST:
            yield from _rest(table, index, here)
            continue
        yield from _name(column.name, (*here, "name"), whose)
        try:
            column_type(column.type)
        except DeclarationError as error:
            yield Problem((*here, "type"), f"{error.message} of {whose}", error.hint)
        yield from _field(table, column, (*here, "name"), whose)
        yield from _expression(table, column.expr, (*here, "expr"), f"expr of {whose}")
    yield from _keys(table, (*at, "keys"))
    yield from _order(table, at)
    yield from _effective_at(table, (*at, "effective_at"))
    yield from _renames(table, (*at, "renames"))
    yield from _event_time(table, at)
    if table.source.leaves_out and table.evolution.on_missing_column != "keep":
        message = f"on_missing_column of table '{table.name}' is {table.evolution.on_missing_column}"
        hint = f"records of kind '{table.source.kind}' leave out what did not change; only keep makes sense"
        yield Problem((*at, "evolution", "on_missing_column"), message, hint)


def _renames(table: Table, at: Path) -> Iterator[Problem]:
    finals, keys = final_names(table), {key.lower() for key in table.keys}
    columns = {column.name.lower() for column in declared_columns(table).values()}
    for old, new in table.renames.items():
        here, whose = (*at, old), f"rename of '{old}' to '{new}' of table '{table.name}'"
        if finals[old.lower()].lower() == old.lower() or not new.strip():
            yield Problem(here, f"the {whose} leads nowhere")
        elif old.lower() in columns:
            yield Problem(here, f"the {whose}: a column is still called '{old}'", "give the column its new name")
        elif {old.lower(), finals[old.lower()].lower()} & keys:
            hint = f"declare the key with an expr: coalesce({new}, {old})"
            yield Problem(here, f"the {whose} is of a key", hint)
        elif table.source.is_bookkeeping(old) or table.source.is_bookkeeping(new):
            yield Problem(here, f"the {whose} is of a field of the source's own")


def _repeated_columns(table: Table, at: Path) -> Iterator[Problem]:
    columns = table.columns or ()
    for name in repeated(column.name for column in columns):
        places = [index for index, column in enumerate(columns) if column.name.lower() == name]
        message = f"column '{name}' of table '{table.name}' is declared {len(places)} times"
        yield Problem((*at, "columns", places[1]), message, "upper and lower case are the same name")


def _rest(table: Table, index: int, at: Path) -> Iterator[Problem]:
    columns = table.columns or ()
    if index != len(columns) - 1:
        yield Problem(at, f"'*' must be the last of the columns of table '{table.name}'")
    if columns[index].expr is not None or columns[index].type != "string":
        yield Problem(at, f"'*' in the columns of table '{table.name}' cannot have a type or an expr")


def _name(name: str, at: Path, whose: str) -> Iterator[Problem]:
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        yield Problem(at, f"{whose} has a name that is empty, not printable or longer than {_LONGEST_NAME}")
    elif name.lower().startswith(OWN_PREFIX):
        hint = f"a source field of this name is called 'source{name}'"
        yield Problem(at, f"{whose} begins with '{OWN_PREFIX}', which is kept for bookkeeping", hint)
    elif name.lower() in ICEBERG_RESERVED:
        hint = f"a source field of this name is called 'source{name}'"
        yield Problem(at, f"{whose} has a name that Iceberg keeps for itself", hint)


def _field(table: Table, column: Column, at: Path, whose: str) -> Iterator[Problem]:
    """Compare a column without expr with the fields of headerless files."""
    if column.expr is not None or not is_headerless(table):
        return
    fields = table.source.field_names(())
    if fields and column.name not in fields:
        yield Problem(at, f"{whose} is not one of the fields of its files", suggestion(column.name, fields))
    elif not fields and column.name.lower() == (table.source.operation_field or "").lower():
        hint = "leave it out: it is not part of the fields"
        yield Problem(at, f"{whose} has the name of the op column", hint)


def _expression(table: Table, expr: str | None, at: Path, whose: str) -> Iterator[Problem]:
    if expr is None:
        return
    found = expression_problems(expr)
    yield from (Problem(at, f"{whose}: {text}") for text in found)
    fields = table.source.field_names(())
    if found or not fields:
        return
    known = {name.lower() for name in fields}
    for field in fields_of(expr):
        if field.lower() not in known:
            yield Problem(at, f"{whose} reads '{field}', which is not a field", suggestion(field, fields))


def _undeclared(table: Table, setting: str, names: Iterable[str], at: Path) -> Iterator[Problem]:
    """Yield names that a closed contract does not declare."""
    columns = declared_columns(table)
    for index, name in enumerate(names):
        # Names of bookkeeping columns have a message of their own.
        if is_closed(table) and name not in columns and not name.startswith(OWN_PREFIX):
            message = f"{setting} of table '{table.name}' names '{name}', which is not one of its columns"
            yield Problem((*at, index), message, suggestion(name, columns))


def _keys(table: Table, at: Path) -> Iterator[Problem]:
    columns = declared_columns(table)
    yield from _undeclared(table, "keys", table.keys, at)
    for name in repeated(table.keys):
        yield Problem(at, f"keys of table '{table.name}' names '{name}' twice")
    for index, name in enumerate(table.keys):
        if name.startswith(OWN_PREFIX):
            yield Problem((*at, index), f"keys of table '{table.name}' names '{name}', which is bookkeeping")
        elif name in columns and is_nested(columns[name].type):
            yield Problem(
                (*at, index), f"key '{name}' of table '{table.name}' is nested", "name columns of simple types"
            )
        elif name in columns and columns[name].type in {"float", "double"}:
            message = f"key '{name}' of table '{table.name}' is a {columns[name].type}, which is not exact"
            yield Problem((*at, index), message, "declare it as decimal(p,s), bigint or string")


def _order(table: Table, at: Path) -> Iterator[Problem]:
    here, columns = (*at, "sequence_by"), declared_columns(table)
    yield from _undeclared(table, "sequence_by", table.sequence_by, here)
    for name in repeated(table.sequence_by):
        yield Problem(here, f"sequence_by of table '{table.name}' names '{name}' twice")
    for index, name in enumerate(table.sequence_by):
        if name.startswith(OWN_PREFIX):
            message = f"sequence_by of table '{table.name}' names '{name}', which is bookkeeping"
            yield Problem((*here, index), message, "leave it out: ties always go by position")
        elif name in columns and is_nested(columns[name].type):
            message = f"sequence_by of table '{table.name}' names '{name}', which is nested and has no order"
            yield Problem((*here, index), message, "name columns of simple types")
        elif not table.source.types_fields:
            yield from _untyped(table, name, at, (*here, index))


def _untyped(table: Table, name: str, at: Path, here: Path) -> Iterator[Problem]:
    """Yield a column that orders changes as text without a declared type; Parquet files have types."""
    columns, all_columns = declared_columns(table), table.columns or ()
    if (name not in columns and is_closed(table)) or (name in columns and "type" in columns[name].model_fields_set):
        return
    message = f"'{name}' orders table '{table.name}' but has no declared type: as text, '10' < '9'"
    line = f"{{name: {name}, type: timestamp}}"
    if name in columns:
        yield Problem((*at, "columns", all_columns.index(columns[name])), message, f"write {line}")
    elif all_columns:
        yield Problem(here, message, f"add {line} to the columns")
    else:
        yield Problem(here, message, f'write columns: [{line}, "*"]')


def _effective_at(table: Table, at: Path) -> Iterator[Problem]:
    name, columns = table.effective_at, declared_columns(table)
    if name is None:
        return
    if is_closed(table) and name not in columns:
        message = f"effective_at of table '{table.name}' names '{name}', which is not one of its columns"
        yield Problem(at, message, suggestion(name, columns))
    elif name in columns and columns[name].type not in TIMES:
        message = f"effective_at of table '{table.name}' names '{name}', which is a {columns[name].type}"
        yield Problem(at, message, "it must be a timestamp, timestamp_ntz or date")


def _event_time(table: Table, at: Path) -> Iterator[Problem]:
    columns = declared_columns(table)
    # An undeclared column of the source may be a time; another rule reports misspelt ones.
    if event_time(table) is not None or any(
        name not in columns or columns[name].type in TIMES for name in table.sequence_by
    ):
        return
    for index, mart in enumerate(table.marts):
        if isinstance(mart, History):
            yield Problem(
                (*at, "marts", index),
                f"the history of table '{table.name}' has no event time",
                "put a timestamp into sequence_by, or name a timestamp column with effective_at",
            )


def retention_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield reasons why a table cannot have a retention; ``at`` is the path of the table."""
    if table.retention is None:
        return
    here, whose = (*at, "retention"), f"retention of table '{table.name}'"
    kind, ways = table.source.kind, table.source.retention_by
    if not ways:
        message = f"the {whose}: changes of kind '{kind}' cannot be folded into a baseline"
        yield Problem(here, message, "leave it out; kinds of one source, and shards of DMS files, can have one")
    elif "place" in ways and not table.sequence_by:
        yield from _by_place(table, here, whose)
    elif "time" in ways:
        yield from _by_time(table, here, whose)
    else:
        message = f"the {whose}: records of kind '{kind}' need not carry '{table.sequence_by[0]}'"
        yield Problem(here, message, "leave sequence_by out: the source orders its changes")


def _by_place(table: Table, here: Path, whose: str) -> Iterator[Problem]:
    time, own = event_time(table), table.source.event_time
    if time != own and any(isinstance(mart, History) for mart in table.marts):
        message = f"the {whose}: history takes its times from '{time}', and the source orders its changes by '{own}'"
        yield Problem(here, message, "leave effective_at out")


def _by_time(table: Table, here: Path, whose: str) -> Iterator[Problem]:
    first = table.sequence_by[0] if table.sequence_by else ""
    column = declared_columns(table).get(first)
    if column is None or column.type not in TIMES:
        what = f"'{first}', the first of sequence_by, is not declared as one" if first else "there is no sequence_by"
        message = f"the {whose} needs a time that orders changes: {what}"
        yield Problem(here, message, "name a column first in sequence_by that columns declare as a timestamp or a date")
        return
    time = event_time(table)
    if time != first and any(isinstance(mart, History) for mart in table.marts):
        message = f"the {whose}: history takes its times from '{time}', which is not the first of sequence_by"
        yield Problem(here, message, f"leave effective_at out, or name '{time}' first in sequence_by")


def mart_problems(table: Table, mart: Mart, at: Path) -> Iterator[Problem]:
    """Yield problems of one mart, except those of its name.

    Args:
        table: the declared table.
        mart: one of its marts.
        at: path of the mart in the declaration.
    """
    yield from _own_columns(table, mart, at)
    for index, text in enumerate(mart.partition_by):
        yield from _partition(table, mart, text, (*at, "partition_by", index))
    yield from _repeated(table, mart, (*at, "partition_by"))
    yield from _known(table, mart, "sort_by", {**_types(table), **added_columns(mart)}, at)
    if isinstance(mart, History):
        for setting in ("track_history_columns", "track_history_except_columns"):
            yield from _known(table, mart, setting, _types(table), at)
        if mart.bitemporal and table.retention is not None:
            message = (
                f"{_whose(table, mart)} is bitemporal, and the table has a retention, which forgets what was known when"
            )
            yield Problem((*at, "bitemporal"), message, "leave out the one or the other")
        if mart.track_history_columns is not None and mart.track_history_except_columns is not None:
            message = f"{_whose(table, mart)} sets both track_history_columns and track_history_except_columns"
            yield Problem((*at, "track_history_except_columns"), message, "keep one of them")
    if isinstance(mart, Current) and mart.live_view is not None and mart.deletes == "hard":
        message = f"live_view of {_whose(table, mart)} has no use: with deletes: hard no row is deleted"
        yield Problem((*at, "live_view"), message, "leave it out, or write deletes: soft")


def _whose(table: Table, mart: Mart) -> str:
    return f"the {mart.kind} mart of table '{table.name}'"


def _types(table: Table) -> dict[str, str]:
    return {name: column.type for name, column in declared_columns(table).items()}


def _own_columns(table: Table, mart: Mart, at: Path) -> Iterator[Problem]:
    for index, column in enumerate(table.columns or ()):
        name = column.name
        if name.lower() in added_columns(mart):
            yield Problem(
                (*at[:-2], "columns", index, "name"),
                f"column '{name}' has the name of a column that {_whose(table, mart)} adds",
                f"give it another one: {{name: source_{name}, expr: {name}}}",
            )


def _partition(table: Table, mart: Mart, text: str, at: Path) -> Iterator[Problem]:
    known = {**_types(table), **added_columns(mart)}
    try:
        transform = partition_transform(text)
    except DeclarationError as error:
        yield Problem(at, f"{error.message} in {_whose(table, mart)}", error.hint)
        return
    if transform.column in known:
        if not transform.accepts(known[transform.column]):
            message = f"partition '{text}' of {_whose(table, mart)} does not go with a {known[transform.column]}"
            yield Problem(at, message)
    elif is_closed(table):
        name = transform.column
        message = f"partition_by of {_whose(table, mart)} names '{name}', which is not one of its columns"
        yield Problem(at, message, suggestion(name, known))


def _repeated(table: Table, mart: Mart, at: Path) -> Iterator[Problem]:
    """Yield partitions that Iceberg considers duplicates, and partitions with the name of a column."""
    taken: dict[str, str] = {"is_current": "the partition of every history mart"} if isinstance(mart, History) else {}
    columns = {name.lower() for name in {**_types(table), **added_columns(mart)}}
    for index, text in enumerate(mart.partition_by):
        try:
            transform = partition_transform(text)
        except DeclarationError:
            continue
        if transform.field in taken:
            message = f"partition '{text}' of {_whose(table, mart)} repeats {taken[transform.field]}"
            yield Problem((*at, index), message, "leave it out")
        elif transform.kind != "identity" and transform.name in columns:
            message = f"Iceberg would call partition '{text}' of {_whose(table, mart)} as a column: {transform.name}"
            hint = f"give the column another name: {{name: source_{transform.name}, expr: {transform.name}}}"
            yield Problem((*at, index), message, hint)
        taken.setdefault(transform.field, f"'{text}'")


def _known(table: Table, mart: Mart, setting: str, known: dict[str, str], at: Path) -> Iterator[Problem]:
    for index, name in enumerate(getattr(mart, setting) or ()):
        if is_closed(table) and name not in known:
            message = f"{setting} of {_whose(table, mart)} names '{name}', which is not one of its columns"
            yield Problem((*at, setting, index), message, suggestion(name, known))
