"""The rules over one mart: partitions, sorting, tracked columns, names it adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import DeclarationError
from frazil.spec.contract import added_columns, declared_columns, is_closed
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.mart import Current, History
from frazil.spec.model.transforms import partition_transform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.mart import Mart
    from frazil.spec.model.pipeline import Table


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
