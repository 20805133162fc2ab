"""The tables of a lake as views of a DuckDB database, for a query."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import duckdb

from frazil.duck.database import confine, open_database
from frazil.duck.sql import identifier, literal, scan
from frazil.serve.tables.as_of import snapshots_at
from frazil.serve.tables.manifests import verify_manifests
from frazil.spec import CATALOG
from frazil.spec.contract import added_columns
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.catalog.catalogs import Located
    from frazil.spec import Pipeline

_LISTING: Final = frozenset({"show", "information_schema", "duckdb_views", "duckdb_columns", "duckdb_tables"})
"""Words of a query that looks at which tables there are."""


def connect_views(
    pipeline: Pipeline, located: Located, sql: str, as_of: str | None = None
) -> duckdb.DuckDBPyConnection:
    """Open a database as :func:`frazil.duck.database.connect` does, with a view of every table that a query may mean.

    Views are named ``layer.name`` and ``lake.layer.name``; a name alone means the table of the marts, else of
    gold, silver, bronze. The live views of soft marts are among them. Tables whose name is no word of ``sql``
    are left out: a view costs some milliseconds, and a lake can have hundreds. With ``as_of`` each table is what it
    was at that point.

    Raises:
        ReaderError: as :func:`frazil.duck.database.connect`.
        PointError: a table that the query reads was not there then, or cannot be read as it was then.
        NotOnThisMachineError: there is no client for where a table is that the query may mean.
        DamagedTableError: as :func:`verify_manifests`.
    """
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    everything = bool(words & _LISTING)
    connection = open_database({}, located)
    connection.execute(f"ATTACH ':memory:' AS {identifier(CATALOG)}")
    names = pipeline.lake.namespaces
    layers = (names.marts, names.gold, names.silver, names.bronze)
    for namespace in dict.fromkeys((*layers, *(namespace for namespace, _ in located))):
        connection.execute(f"CREATE SCHEMA {identifier(CATALOG, namespace)}")
    meant = {
        path: shown
        for path, shown in with_live_views(pipeline, located).items()
        if everything or path[1].lower() in words
    }
    at: dict[tuple[str, str], int] | None = None
    if as_of is not None:
        used = _used(meant, _names(connection, sql), layers)
        at = snapshots_at(as_of, {path: location for path, (location, _) in meant.items()}, used)
    for path, (location, selection) in meant.items():
        if at is None or path in at:
            snapshot = None if at is None else at[path]
            verify_manifests(location, snapshot)
            view = identifier(CATALOG, *path)
            connection.execute(f"CREATE VIEW {view} AS {selection.format(scan(location, snapshot))}")
    search = ",".join(identifier(CATALOG, layer) for layer in layers)
    connection.execute(f"SET search_path = {literal(search)}")
    confine(connection, located)
    return connection


def _names(connection: duckdb.DuckDBPyConnection, sql: str) -> list[list[str]]:
    """Return the names of tables in a query, in parts; all its words where DuckDB needs the tables to tell."""
    try:
        named = connection.get_table_names(sql, qualified=True)
    except duckdb.Error:
        named = {*re.findall(r"\w+", sql)}
    return [[part.strip('"').lower() for part in re.findall(r'"(?:[^"]|"")*"|[^.]+', name)] for name in named]


def _used(meant: Iterable[tuple[str, str]], names: list[list[str]], layers: Iterable[str]) -> set[tuple[str, str]]:
    """Return the tables that a query reads; ``layers`` are the namespaces in the order in which a name is searched."""
    paths = {(namespace.lower(), table.lower()): (namespace, table) for namespace, table in meant}
    found = set()
    for *before, table in names:
        spaces = before[-1:] or [layer.lower() for layer in layers]
        found |= {next((paths[space, table] for space in spaces if (space, table) in paths), None)}
    return {path for path in found if path is not None}


def with_live_views(pipeline: Pipeline, located: Located) -> dict[tuple[str, str], tuple[str, str]]:
    """List what can be queried: path -> metadata file and the SELECT over it, ``{}`` where the table goes."""
    shown = {path: (location, "SELECT * FROM {}") for path, location in located.items()}
    for table in pipeline.tables:
        made = source_tables(pipeline, table)
        for view in made.views:
            soft = next(mart for mart in made.marts if mart.mart is view.mart)
            if view.mart and (location := located.get(soft.key)):
                hidden = ", ".join(map(identifier, added_columns(view.mart)))
                shown[view.key] = (location, f"SELECT * EXCLUDE ({hidden}) FROM {{}} WHERE NOT is_deleted")
    return shown
