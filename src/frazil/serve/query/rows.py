"""Pages of a mart's rows, each found by the place of the last row before it: pages at the end are as quick."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.duck import duck_literal, identifier
from frazil.serve.query.plain import plain
from frazil.serve.query.query import query, without_bookkeeping
from frazil.spec import History
from frazil.spec.sql.select import UnknownSelectionError
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.query.query import Rows
    from frazil.serve.query.stop import Stop
    from frazil.spec import Pipeline
    from frazil.spec.tables import LakeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class MartRows:
    """One page of a mart's rows.

    Attributes:
        columns, types: columns without those of bookkeeping, and DuckDB's names of their types.
        rows: rows in the order of the key, then of their begin.
        next: place of the next page; None on the last one.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: Rows
    next: str | None


def mart_rows(
    pipeline: Pipeline, mart: str, *, after: str | None = None, limit: int = 25, stop: Stop | None = None
) -> MartRows:
    """Return a page of a mart's rows.

    Args:
        pipeline: the declaration.
        mart: name of the mart, without its namespace.
        after: ``next`` of the page before; None, or any other text, for the first page.
        limit: rows of a page.
        stop: as for :func:`frazil.serve.query.query.query`.

    Raises:
        UnknownSelectionError: the mart is unknown.
        QueryError: the query was stopped.

    Cost: one scan of the mart, which keeps ``limit`` rows.
    """
    made, order = _ordered(pipeline, mart)
    sorted_by = ", ".join(f"{identifier(name)} NULLS FIRST" for name in order)
    table = identifier(made.namespace, made.name)
    sql = f"SELECT * FROM {table} WHERE {_after(order, after)} ORDER BY {sorted_by}"
    found = query(pipeline, sql, limit=limit + 1, stop=stop)
    last: Any = None
    if len(found.rows) > limit:
        row = dict(zip(found.columns, found.rows[limit - 1], strict=True))
        last = _place([row[name] for name in order])
    shown = without_bookkeeping(found)
    return MartRows(columns=shown.columns, types=shown.types, rows=shown.rows[:limit], next=last)


def _ordered(pipeline: Pipeline, mart: str) -> tuple[LakeTable, list[str]]:
    """Return a mart, and the columns that name one of its rows."""
    for table in pipeline.tables:
        for made in source_tables(pipeline, table).marts:
            if made.name == mart:
                names = [*table.keys]
                if isinstance(made.mart, History):
                    names += ["valid_from", "valid_to", *(["known_from"] if made.mart.bitemporal else [])]
                return made, names
    raise UnknownSelectionError(f"no mart is called {mart!r}")


def _place(values: Sequence[Any]) -> str:
    return json.dumps([None if value is None else _typed(value) for value in values], separators=(",", ":"))


def _typed(value: Any) -> list[str]:
    if isinstance(value, bytes):
        return ["hex", value.hex()]
    return ["text", value.isoformat(sep=" ") if isinstance(value, dt.datetime) else f"{plain(value)}"]


def _after(columns: Sequence[str], place: str | None) -> str:
    """Return the condition for the rows after a place, in the order of the columns with NULL first."""
    try:
        values = json.loads(place or "")
    except ValueError:
        return "true"
    if not isinstance(values, list) or len(values) != len(columns):
        return "true"
    before: list[str] = []
    found: list[str] = []
    for name, value in zip(columns, values, strict=True):
        column, text = identifier(name), None if value is None else _literal(value)
        found.append(" AND ".join([*before, f"{column} IS NOT NULL" if text is None else f"{column} > {text}"]))
        before.append(f"{column} IS NULL" if text is None else f"{column} = {text}")
    return "(" + " OR ".join(f"({one})" for one in found) + ")"


def _literal(value: Any) -> str:
    match value:
        case ["hex", str(text)]:
            return f"unhex({duck_literal(text)})"
        case [_, str(text)]:
            return duck_literal(text)
        case _:
            return "NULL"
