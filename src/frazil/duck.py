"""DuckDB over the tables of a lake: confined to the lake, in UTC; and the files that bronze has, read by it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import duckdb

from frazil.bronze import record as r
from frazil.catalog.catalogs import NoLakeError, catalog_reader
from frazil.catalog.conf import lake_address
from frazil.catalog.warehouse import verify_catalog
from frazil.errors import SetupError
from frazil.host import spill_folder
from frazil.iceberg.files import damage_of
from frazil.iceberg.metadata import folder_addresses, metadata_of
from frazil.iceberg.snapshot import metadata_snapshot
from frazil.spec.tables import source_tables
from frazil.storage.object_store import StoreAddress
from frazil.storage.store_client import login

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from frazil.catalog.catalogs import Located
    from frazil.spec import Pipeline
    from frazil.spec.model.stores import StoreAccess


def identifier(*parts: str) -> str:
    """Write a name, or a dotted path of names, so that DuckDB takes it literally."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def duck_literal(text: str) -> str:
    """Write a text as a string literal of DuckDB, whose parser takes no character 0."""
    quoted = "'" + text.replace("'", "''") + "'"
    return "(" + quoted.replace("\0", "' || chr(0) || '") + ")" if "\0" in text else quoted


def scan(location: str, snapshot: int | None = None) -> str:
    """Write a table as DuckDB reads it: its rows are those of exactly this metadata file, or of an older snapshot."""
    older = "" if snapshot is None else f", snapshot_from_id => {snapshot}"
    return f"iceberg_scan({duck_literal(location)}{older})"


_EXTENSIONS: Final = ("avro", "iceberg")


class ReaderError(SetupError):
    """DuckDB cannot read Iceberg on this machine."""

    code = "FZ904"


def connect(located: Located, settings: Mapping[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    """Open an empty in-memory database that can read only the given tables.

    Later statements cannot use files outside the tables' folders, the network, or other settings. The caller must
    refuse statements that write inside these folders.

    Args:
        located: the tables, each with the address of its metadata.
        settings: DuckDB settings such as ``memory_limit``.

    Raises:
        ReaderError: the extension's wheel is missing, or not the one for this DuckDB.
    """
    connection = open_database(settings or {}, located)
    confine(connection, located)
    return connection


def cursor(located: Located, settings: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
    """As :func:`connect`, for a process that does it often: to load DuckDB's extensions takes longer than small scans.

    A database over local tables in the same folders is kept, and each call opens a connection to it. Threads may call
    it at once; one waits while another opens a database.
    """
    if any(isinstance(location, StoreAddress) for location in located.values()):
        return connect(located, settings)  # what opens a store may change
    key = tuple(sorted(folder_addresses(location) for location in located.values()))
    with _keeping:
        connection = _kept.get(key)
        if connection is None:
            while len(_kept) >= _KEPT:
                del _kept[next(iter(_kept))]
            connection = _kept[key] = connect(located, settings)
        return connection.cursor()


_KEPT: Final = 4
_keeping: Final = Lock()
_kept: dict[tuple[tuple[str, ...], ...], duckdb.DuckDBPyConnection] = {}


def open_database(settings: Mapping[str, str], located: Located) -> duckdb.DuckDBPyConnection:
    """Open an empty database in memory that can read Iceberg; :func:`confine` must close it before it is used.

    Raises:
        ReaderError: as :func:`connect`.
    """
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
            connection.execute(f"LOAD {duck_literal(f'{path}')}")
        except duckdb.Error as error:
            raise ReaderError(
                f"DuckDB {duckdb.__version__} does not load its extension {name}: {error}",
                hint=f"pip install duckdb-extension-{name}=={duckdb.__version__}",
            ) from error
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # standard output is the caller's
    for number, access in enumerate(sorted(stores, key=lambda one: (one.root, one.below))):
        try:
            connection.execute(duckdb_secret(access, f"store_{number}"))
        except duckdb.Error:  # its text has the statement, with the secret
            hint = "look at stores in the declaration"
            raise ReaderError(f"DuckDB does not take the settings of {access.root}", hint=hint) from None
    return connection


def confine(connection: duckdb.DuckDBPyConnection, located: Located) -> None:
    """Close everything but the folders of the given tables to later statements, and all settings."""
    folders = sorted({folder for location in located.values() for folder in folder_addresses(location)})
    connection.execute(f"SET allowed_directories = [{', '.join(map(duck_literal, folders))}]")
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


class StoreUnknownToDuckDBError(SetupError):
    """DuckDB has no client here for a kind of object store."""

    code = "FZ911"

    def __init__(self, root: str) -> None:
        super().__init__(
            f"DuckDB cannot read {root} here: it reads S3 and what speaks its language",
            hint="ask Spark or Trino; frazil run, rebuild and maintain work on it",
        )


def duckdb_secret(access: StoreAccess, name: str) -> str:
    """Write the statement that lets DuckDB into what a login is for, and nowhere else. It can hold secrets.

    Raises:
        StoreUnknownToDuckDBError: it is not S3.
    """
    if access.scheme != "s3":
        raise StoreUnknownToDuckDBError(access.root)
    settings = {"TYPE": "s3", "REGION": access.get("region") or "us-east-1"}
    if known := login(access):
        settings |= {"KEY_ID": known["access_key_id"], "SECRET": known["secret_access_key"]}
        settings |= {"SESSION_TOKEN": known["session_token"]} if known.get("session_token") else {}
    if endpoint := access.get("endpoint"):
        parts = urlsplit(endpoint)
        settings |= {"ENDPOINT": f"{parts.netloc}{parts.path}".rstrip("/")}
        settings |= {"USE_SSL": "false" if parts.scheme == "http" else "true"}
    settings["URL_STYLE"] = "path" if access.path_style else "vhost"
    written = ", ".join(f"{key} {duck_literal(value)}" for key, value in settings.items())
    scopes = ", ".join(duck_literal(f"{scheme}://{access.bucket}/{access.below}") for scheme in ("s3", "s3a", "s3n"))
    return f"CREATE SECRET {name} ({written}, SCOPE [{scopes}])"


def taken_files(pipeline: Pipeline, names: Collection[str]) -> dict[str, list[str]]:
    """Return the paths of the files that bronze has of some source tables; a table without any is left out.

    Raises:
        CatalogBehindError: the embedded catalog is lost, and the warehouse has tables of the pipeline.
        CatalogError: the catalog does not answer.
        CatalogClientError: it is a service and ``frazil[catalogs]`` is not installed.
        DamagedTableError: a file of a bronze table is missing or damaged.
        ObjectStoreError: the object store refuses the request, or does not answer.

    Cost: the catalog, then the ledger of each bronze table.
    """
    try:
        located = catalog_reader(pipeline).tables(of_others=False)
    except NoLakeError:
        located = {}
    found: dict[str, list[str]] = {}
    for table in pipeline.tables:
        if table.name not in names:
            continue
        key = source_tables(pipeline, table).bronze.key
        verify_catalog(pipeline, table, located.get(key))
        if key in located and (paths := _paths(lake_address(pipeline, located[key]))):
            found[table.name] = paths
    return found


def _paths(bronze: str) -> list[str]:
    """Return the files in the ledger of a table; ``bronze`` is the address of its metadata file."""
    metadata = metadata_of(bronze)
    if metadata_snapshot(metadata).manifest_list is None:
        return []
    # DuckDB's reader must not meet a damaged manifest: it ends the process.
    if not isinstance(bronze, StoreAddress) and (damage := damage_of(metadata)):
        raise damage
    with connect({("", ""): bronze}) as database:
        sql = f"SELECT {r.FILE} FROM {scan(bronze)} WHERE {r.KIND} = {duck_literal(r.LEDGER_ROW)}"
        return [path for (path,) in database.execute(sql).fetchall()]
