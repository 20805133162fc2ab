"""List a catalog's tables without Spark.

A JDBC catalog is one table of a database, so it is read directly: one short query in place of one request a table, and
without PyIceberg, which takes seconds to import. Services are asked through PyIceberg.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from urllib.parse import quote as percent_encoded

from frazil.catalog.conf import PREFIX, VendedAddress, catalog_conf, pyiceberg_properties, vended_login
from frazil.catalog.trouble import CatalogError
from frazil.errors import FrazilError, SetupError, StorageError
from frazil.spec import CATALOG, EmbeddedCatalog, JdbcCatalog
from frazil.spec.location import embedded_catalog
from frazil.spec.tables import lake_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from frazil.spec import Namespaces, Pipeline
    from frazil.spec.model.pipeline import Catalog

Located = dict[tuple[str, str], str]
"""(namespace, table) -> address of the table's newest metadata file, with its login where the catalog hands one out."""

Wanted: TypeAlias = "Collection[tuple[str, str]] | None"
"""(namespace, table) of the tables that are looked for; None for all."""

_TABLES: Final = (
    "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables "
    f"WHERE catalog_name = '{CATALOG}' AND COALESCE(iceberg_type, 'TABLE') = 'TABLE'"
)
"""Tables of Iceberg's JDBC catalog, without views, which are rows of the same table."""

_FORGET: Final = (
    "DELETE FROM iceberg_tables "
    "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND iceberg_type = 'VIEW'"
)

_IS_USED: Final = "SELECT count(*) FROM sqlite_master WHERE name = 'iceberg_tables'"
"""Whether Iceberg has written to a SQLite file: its first run creates the catalog's own tables."""

_UNDEFINED_TABLE: Final = "42P01"
"""PostgreSQL's code for the same."""

_POSTGRES_SETTINGS: Final = frozenset({"user", "password", "sslmode", "sslrootcert", "sslcert", "sslkey"})
"""Settings of a JDBC address that PostgreSQL's own library knows by the same name."""


class NoLakeError(StorageError):
    """Nothing was written yet."""

    code = "FZ304"
    retryable = False

    def __init__(self, where: str) -> None:
        super().__init__(
            f"no lake yet at {where}", hint="make it: frazil run; where that commits nothing, frazil plan says why"
        )


class CatalogClientError(SetupError):
    """The client library of a catalog is missing, or Frazil has no reader for its database."""

    code = "FZ905"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="pip install 'frazil[catalogs]'; or ask Spark")


class CatalogReader(Protocol):
    """A catalog that is read without Spark, once for each command, and never written."""

    def tables(self, *, of_others: bool = True, only: Wanted = None) -> Located:
        """List tables of the catalog at this moment, without views.

        Args:
            of_others: include tables that other pipelines own. A service needs one request for each table, so callers
                that need only their own tables pass False; a database returns all of them in one query.
            only: tables of this pipeline that are looked for; None for all.

        Raises:
            NoLakeError: the catalog has no Iceberg tables yet.
            CatalogError: the catalog does not answer or is not valid. The message leaves out secrets of its address.
            CatalogClientError: the catalog's client library is missing.
        """


def catalog_reader(pipeline: Pipeline) -> CatalogReader:
    """Return the reader of a pipeline's catalog, references to secrets resolved.

    Raises:
        DeclarationError: a secret that the catalog refers to does not exist.
    """
    catalog = pipeline.lake.catalog
    if isinstance(catalog, EmbeddedCatalog):
        return EmbeddedReader(embedded_catalog(pipeline))
    conf = catalog_conf(pipeline)
    settings = {key.removeprefix(f"{PREFIX}."): text for key, text in conf.items() if key.startswith(f"{PREFIX}.")}
    if isinstance(catalog, JdbcCatalog):
        return JdbcReader(settings, pipeline.lake.warehouse)
    own = tuple(made.key for made in lake_tables(pipeline) if made.role != "view")
    return ServiceReader(settings, catalog.type, pipeline.lake.namespaces, own)


_AT_ONCE = 8
"""Tables that are loaded from a service in parallel."""


@dataclass(frozen=True, slots=True)
class EmbeddedReader:
    """The SQLite file in a warehouse."""

    file: Path

    def tables(self, *, of_others: bool = True, only: Wanted = None) -> Located:  # noqa: ARG002 - gives all at once
        """List the tables, as :meth:`CatalogReader.tables`."""
        file = self.file
        if not file.is_file():
            raise NoLakeError(f"{file.parent}")
        try:
            found = _sqlite(f"file:{percent_encoded(f'{file}')}?mode=ro", only)
        except sqlite3.OperationalError as error:
            # SQLite needs write permission to read a log; without a log the file alone is complete.
            if file.with_name(f"{file.name}-wal").exists():
                raise CatalogError(f"the catalog {file} cannot be read: {error}") from error
            found = _sqlite(f"file:{percent_encoded(f'{file}')}?mode=ro&immutable=1", only)
        except sqlite3.DatabaseError as error:
            raise _unreadable(file, f"{error}") from error
        if found is None and _is_cut(file):
            raise _unreadable(file, "it ends within its first page")
        if found is None:
            raise NoLakeError(f"{file.parent}")
        return found


def forget_view(file: Path, key: tuple[str, str]) -> None:
    """Remove a view with unreadable metadata from an embedded catalog, which Iceberg's own DROP VIEW cannot do.

    Args:
        file: the catalog.
        key: namespace and name of the view.
    """
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as connection, connection:
        connection.execute(_FORGET, (CATALOG, *key))


def _unreadable(file: Path, why: str) -> CatalogError:
    hint = "restore it; or let frazil doctor --repair make it again from the warehouse"
    return CatalogError(f"the catalog {file} cannot be read: {why}", hint=hint)


def _is_cut(file: Path) -> bool:
    """Return whether the file is shorter than its first page, which SQLite reads as a database without tables."""
    with file.open("rb") as content:
        head = content.read(18)
    page = int.from_bytes(head[16:18], "big")
    return 0 < file.stat().st_size < (65536 if page == 1 else page)


@dataclass(frozen=True, slots=True)
class JdbcReader:
    """Iceberg's table in a database; ``settings`` are those of Spark's catalog."""

    settings: Mapping[str, str] = field(repr=False)
    warehouse: str

    def tables(self, *, of_others: bool = True, only: Wanted = None) -> Located:  # noqa: ARG002 - gives all at once
        """List the tables, as :meth:`CatalogReader.tables`."""
        address = self.settings["uri"].removeprefix("jdbc:")
        with _answering("jdbc"):
            if address.startswith("sqlite:"):
                path = Path(address.removeprefix("sqlite:").partition("?")[0])
                is_new = path.parent.is_dir() and not path.exists()
                found = None if is_new else _sqlite(f"file:{path}?mode=ro", only)
            elif address.startswith("postgresql:"):
                found = _postgres(address, self.settings, only)
            else:
                kind = address.partition(":")[0]
                message = f"there is no reader for a JDBC catalog on {kind}, only for postgresql and sqlite"
                raise CatalogClientError(message)
            if found is None:
                raise NoLakeError(self.warehouse)
            return found


@dataclass(frozen=True, slots=True)
class ServiceReader:
    """A REST, Glue or Hive catalog; ``settings`` are those of Spark's catalog."""

    settings: Mapping[str, str] = field(repr=False)
    kind: str
    namespaces: Namespaces
    own: tuple[tuple[str, str], ...]

    def tables(self, *, of_others: bool = True, only: Wanted = None) -> Located:
        """Load tables in parallel, without tables of other pipelines that cannot be loaded.

        Raises:
            CatalogError: as :meth:`CatalogReader.tables`, or a table of this pipeline cannot be loaded.
        """
        with _answering(self.kind):
            from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra, and seconds to import

            known = pyiceberg_properties(self.settings)
            catalog = load_catalog(CATALOG, **known)
            names = self.namespaces
            spaces = dict.fromkeys((names.bronze, names.silver, names.marts, names.gold)) if of_others else ()
            listed = [(namespace, path[-1]) for namespace in spaces for path in _listed(catalog, namespace)]
        # Hive's client has one connection, so threads would read each other's answers.
        pool = ThreadPoolExecutor(1 if self.kind == "hive" else _AT_ONCE)
        try:
            paths = (*self.own, *listed) if only is None else only
            asked = {path: pool.submit(self._load, catalog, path, known) for path in paths}
            found = {path: answer.result() for path, answer in asked.items()}
        finally:
            pool.shutdown(cancel_futures=True)
        return {path: address for path, address in found.items() if address is not None}

    def _load(self, catalog: Any, path: tuple[str, str], known: Mapping[str, str]) -> str | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError  # noqa: PLC0415

        try:
            with _answering(self.kind, table=".".join(path)):
                try:
                    return _address(catalog.load_table(path), known)
                except (NoSuchTableError, NoSuchNamespaceError):
                    return None
        except CatalogError:
            if path in self.own:
                raise
            return None


@contextlib.contextmanager
def _answering(kind: str, *, table: str | None = None) -> Iterator[None]:
    """Raise a client's errors as Frazil errors, without their text, which can contain the password."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise CatalogClientError(f"a {kind} catalog needs {error.name}, which is not installed") from error
    except FrazilError:
        raise
    except Exception as error:  # noqa: BLE001 - every client has errors of its own
        raise CatalogError(
            f"the {kind} catalog does not answer{f' for {table}' if table else ''}: {type(error).__name__}",
            hint="look at lake.catalog in the declaration, and whether the service is up",
        ) from None


def _sqlite(uri: str, only: Wanted) -> Located | None:
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=30)) as connection:
        (is_used,) = connection.execute(_IS_USED).fetchone()
        if not is_used:
            return None
        some = "" if only is None else " AND table_name IN (SELECT value FROM json_each(?))"
        names = () if only is None else (json.dumps(sorted({name for _, name in only})),)
        return _located(connection.execute(f"{_TABLES}{some}", names).fetchall(), only)


def _postgres(address: str, settings: Mapping[str, str], only: Wanted) -> Located | None:
    parts = urlsplit(address)
    given = dict(parse_qsl(parts.query))
    known = {name: text for name, text in given.items() if name in _POSTGRES_SETTINGS}
    if "currentSchema" in given:
        known["options"] = f"-csearch_path={given['currentSchema']}"
    login = {name: settings[f"jdbc.{name}"] for name in ("user", "password") if f"jdbc.{name}" in settings}
    client = import_module(postgres_client())
    uri = urlunsplit(parts._replace(query=urlencode(known)))
    with contextlib.closing(client.connect(uri, connect_timeout=10, **login)) as connection:
        cursor = connection.cursor()
        some = "" if only is None else " AND table_name = ANY(%s)"
        try:
            cursor.execute(f"{_TABLES}{some}", None if only is None else ([name for _, name in only],))
        except client.Error as error:
            # psycopg says sqlstate, psycopg2 pgcode.
            if _UNDEFINED_TABLE in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None)):
                return None
            raise
        return _located(cursor.fetchall(), only)


def _located(rows: list[tuple[str, str, str]], only: Wanted) -> Located:
    return {(space, name): location for space, name, location in rows if only is None or (space, name) in only}


def _address(table: Any, known: Mapping[str, str]) -> str:
    location: str = table.metadata_location
    login = vended_login(table.io.properties, known)
    return VendedAddress(location, table.location(), login) if login else location


def _listed(catalog: Any, namespace: str) -> Iterator[tuple[str, ...]]:
    from pyiceberg.exceptions import NoSuchNamespaceError  # noqa: PLC0415

    with contextlib.suppress(NoSuchNamespaceError):
        yield from catalog.list_tables(namespace)


_POSTGRES: Final = ("psycopg2", "psycopg")
"""Clients of PostgreSQL; one of them is enough."""

CLIENTS_HINT: Final = "plan, status, query, check and key need it: pip install 'frazil[catalogs]'"


def missing_client(catalog: Catalog) -> str | None:
    """Return which library the catalog needs and this Python lacks; None if nothing is missing."""
    if isinstance(catalog, EmbeddedCatalog):
        return None
    if not isinstance(catalog, JdbcCatalog):
        module = "pyiceberg"
    elif catalog.uri.startswith("jdbc:postgresql:"):
        module = postgres_client()
    else:
        return None
    return None if find_spec(module) else f"a {catalog.type} catalog needs {module}, which is not installed"


def postgres_client() -> str:
    """Return the client of PostgreSQL that is installed, or the name of the one to install."""
    return next(filter(find_spec, _POSTGRES), _POSTGRES[0])
