"""Check that the declared keys identify a row at the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import sql

from frazil.sources.postgres.errors import ServerSetupError
from frazil.spec.contract import declared_columns, final_names

if TYPE_CHECKING:
    from frazil.sources.postgres.database.server import Server, ServerTable
    from frazil.spec import Table

_MOST_REPEATED: Final = 0.001
"""Allowed share of repeated keys: a table without a unique key may contain a few rows twice."""


def missing_key(where: str, table: ServerTable, declaration: Table) -> ServerSetupError | None:
    """Return an error for a key that is not a column; None if all keys are columns or derived from columns.

    Args:
        where: name of the slot, for messages.
        table: table at the server.
        declaration: declared table.
    """
    columns = {column.lower() for column in table.columns}
    made = {name.lower() for name, column in declared_columns(declaration).items() if column.expr is not None}
    made |= {name.lower() for name in final_names(declaration).values()}
    missing = [key for key in declaration.keys if key.lower() not in columns | made]
    if not missing:
        return None
    key, hint = missing[0], f"its columns are {', '.join(table.columns)}"
    if key.lower() in {column.lower() for column in table.generated}:
        hint = f"the server computes it, and does not send it; {hint}"
    elif table.identity and not table.is_full:
        hint = f"declare keys: [{', '.join(table.identity)}]; {hint}"
    return ServerSetupError(
        f"{where}: key '{key}' of table '{declaration.name}' is not a column of {table.full_name}", hint=hint
    )


def repeated_key(where: str, server: Server, table: ServerTable, declaration: Table) -> ServerSetupError | None:
    """Return an error if several rows share a declared key; None if the keys are unique.

    Args:
        where: name of the slot, for messages.
        server: session with the server.
        table: table at the server.
        declaration: declared table.

    Cost: one scan of the table, unless a unique index covers some of the keys.
    """
    keys, unique = _key_columns(table, declaration), _unique_columns(server, table)
    if not keys or any(columns <= {*keys} for columns in unique):
        return None
    conditions = [sql.SQL("{} IS NOT NULL").format(sql.Identifier(key)) for key in keys]
    if table.row_filter is not None:
        conditions.append(sql.SQL("({})").format(sql.SQL(table.row_filter)))
    query = sql.SQL(_REPEATED).format(
        place=table.itself,
        keys=sql.SQL(", ").join(map(sql.Identifier, keys)),
        conditions=sql.SQL(" AND ").join(conditions),
    )
    [(repeated, count)] = server.session.execute(query).fetchall()
    if repeated <= _MOST_REPEATED * count:
        return None
    better = [[column for column in table.columns if column in columns] for columns in unique]
    hint = f"declare keys: [{', '.join(better[0])}]" if better else "declare the columns that together name a row"
    return ServerSetupError(
        f"{where}: {', '.join(keys)} of table '{declaration.name}' does not name a row of {table.full_name}: "
        f"{repeated:,} of {count:,} values have several",
        hint=hint,
    )


def unwatched_key(server: Server, table: ServerTable, declaration: Table) -> list[str]:
    """Return the key columns if no unique index of the server covers some of them; else an empty list.

    Args:
        server: session with the server.
        table: table at the server.
        declaration: declared table.
    """
    keys = _key_columns(table, declaration)
    return [] if any(columns <= {*keys} for columns in _unique_columns(server, table)) else keys


def _key_columns(table: ServerTable, declaration: Table) -> list[str]:
    """Return the columns of the declared keys; empty unless every key is a column."""
    names = {column.lower(): column for column in table.columns}
    keys = [names[key.lower()] for key in declaration.keys if key.lower() in names]
    return keys if len(keys) == len(declaration.keys) else []


def _unique_columns(server: Server, table: ServerTable) -> list[set[str]]:
    return [set(columns) for (columns,) in server.rows(_UNIQUE, table.oid)]


_UNIQUE: Final = """
SELECT (SELECT array_agg(a.attname::text) FROM pg_attribute a
    WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[:i.indnkeyatts - 1]))
FROM pg_index i
WHERE i.indrelid = %s::int8::oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indisprimary DESC, i.indexrelid"""

_REPEATED: Final = """
SELECT count(*) FILTER (WHERE times > 1), count(*)
FROM (SELECT count(*) AS times FROM {place} WHERE {conditions} GROUP BY {keys}) AS counted"""
