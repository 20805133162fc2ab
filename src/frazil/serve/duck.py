"""DuckDB over the tables of a lake: confined to the lake, without a network but for its object store, in UTC."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from frazil.errors import SetupError
from frazil.lake.damage import folder_addresses
from frazil.lake.scratch import spill_folder
from frazil.serve.as_of import snapshots_at
from frazil.serve.duck_stores import duckdb_secret
from frazil.serve.manifests import verify_manifests
from frazil.spec import CATALOG
from frazil.spec.contract import added_columns
from frazil.spec.tables import source_tables
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frazil.lake.catalogs import Located
    from frazil.spec import Pipeline

_EXTENSIONS: Final = ("avro", "iceberg")
_LISTING: Final = frozenset({"show", "information_schema", "duckdb_views", "duckdb_columns", "duckdb_tables"})
"""Words of a query that looks at which tables there are."""


class ReaderError(SetupError):
    """DuckDB cannot read Iceberg on this machine."""

    code = "FZ904"


def identifier(*parts: str) -> str:
    """Write a name, or a dotted path of names, so that DuckDB takes it literally."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def literal(text: str) -> str:
    """Write a text as a string literal of DuckDB."""
    return "'" + text.replace("'", "''") + "'"


def scan(location: str, snapshot: int | None = None) -> str:
    """Write a table as DuckDB reads it: its rows are those of exactly this metadata file, or of an older snapshot."""
    older = "" if snapshot is None else f", snapshot_from_id => {snapshot}"
    return f"iceberg_scan({literal(location)}{older})"


def connect(located: Located, settings: Mapping[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    """Open an empty database in memory that can read the given tables, and nothing else.

    ``settings`` are DuckDB's own, such as ``memory_limit``. Files outside the tables' folders, the network and
    further settings are closed to every later statement; what would write inside those folders is for
    :mod:`frazil.serve.query` to keep out.

    Raises:
        ReaderError: the extension's wheel is missing, or not the one for this DuckDB.
    """
    connection = _loaded(settings or {}, located)
    _confine(connection, located)
    return connection


def connect_views(
    pipeline: Pipeline, located: Located, sql: str, as_of: str | None = None
) -> duckdb.DuckDBPyConnection:
    """Open a database as :func:`connect` does, with a view of every table that a query may mean.

    Views are named ``layer.name`` and ``lake.layer.name``; a name alone means the table of the marts, else of
    gold, silver, bronze. The live views of soft marts are among them. Tables whose name is no word of ``sql``
    are left out: a view costs some milliseconds, and a lake can have hundreds. With ``as_of`` each table is what it
    was at that point.

    Raises:
        ReaderError: as :func:`connect`.
        PointError: a table that the query reads was not there then, or cannot be read as it was then.
        NotOnThisMachineError: there is no client for where a table is that the query may mean.
        DamagedTableError: as :func:`verify_manifests`.
    """
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    everything = bool(words & _LISTING)
    connection = _loaded({}, located)
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
    _confine(connection, located)
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


def _loaded(settings: Mapping[str, str], located: Located) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "temp_directory": f"{spill_folder()}",
            **settings,
        }
    )
    stores = {location.access for location in located.values() if isinstance(location, StoreAddress)}
    for name in (*(("httpfs",) if stores else ()), *_EXTENSIONS):
        path = _extension(name)
        try:
            connection.execute(f"LOAD {literal(f'{path}')}")
        except duckdb.Error as error:
            raise ReaderError(
                f"DuckDB {duckdb.__version__} does not load its extension {name}: {error}",
                hint=f"pip install duckdb-extension-{name}=={duckdb.__version__}",
            ) from error
    connection.execute("SET TimeZone = 'UTC'")
    for number, access in enumerate(sorted(stores, key=lambda one: one.root)):
        try:
            connection.execute(duckdb_secret(access, f"store_{number}"))
        except duckdb.Error:  # its text has the statement, with the secret
            hint = "look at stores in the declaration"
            raise ReaderError(f"DuckDB does not take the settings of {access.root}", hint=hint) from None
    return connection


def _confine(connection: duckdb.DuckDBPyConnection, located: Located) -> None:
    folders = sorted({folder for location in located.values() for folder in folder_addresses(location)})
    connection.execute(f"SET allowed_directories = [{', '.join(map(literal, folders))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _extension(name: str) -> Path:
    spec = find_spec(f"duckdb_extension_{name}")
    folders: Iterable[Any] = spec.submodule_search_locations or () if spec else ()
    for folder in folders:
        path = Path(folder) / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
        if path.is_file():
            return path
    raise ReaderError(
        f"DuckDB's extension {name} for version {duckdb.__version__} is not installed",
        hint=f"pip install duckdb-extension-{name}=={duckdb.__version__}",
    )
