"""The tables of a catalog that is a database or a service.

A JDBC catalog is one table of a database, so it is read directly: one short query in place of one request a
table, and without PyIceberg, which takes seconds to import. Services are asked through PyIceberg.
"""

from __future__ import annotations

import contextlib
import sqlite3
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from frazil.errors import FrazilError, SetupError
from frazil.lake.catalog_conf import PREFIX, catalog_conf
from frazil.lake.trouble import CatalogError
from frazil.serve.tables import TABLES_SQL, NoLakeError
from frazil.spec import CATALOG, JdbcCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.serve.tables import Located
    from frazil.spec import Pipeline

_UNDEFINED_TABLE: Final = "42P01"
_POSTGRES_SETTINGS: Final = frozenset({"user", "password", "sslmode", "sslrootcert", "sslcert", "sslkey"})
"""Settings of a JDBC address that PostgreSQL's own library knows by the same name."""


class CatalogClientError(SetupError):
    """The client library of a catalog is not installed, or there is none for it."""

    code = "FZ905"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="pip install 'frazil[catalogs]'; or ask Spark")


def catalog_tables(pipeline: Pipeline) -> Located:
    """Find all tables of a catalog that is not embedded, with secrets resolved.

    Raises:
        NoLakeError: a database that Iceberg never wrote to.
        CatalogClientError: a library is missing.
        CatalogError: the catalog does not answer. Its address is told without what may be secret in it.
        DeclarationError: a reference to a secret leads nowhere.
    """
    conf = catalog_conf(pipeline)
    settings = {key.removeprefix(f"{PREFIX}."): text for key, text in conf.items() if key.startswith(f"{PREFIX}.")}
    kind = pipeline.lake.catalog.type
    try:
        if isinstance(pipeline.lake.catalog, JdbcCatalog):
            return _jdbc(settings)
        return _service(pipeline, settings)
    except ModuleNotFoundError as error:
        raise CatalogClientError(f"a {kind} catalog needs {error.name}, which is not installed") from error
    except FrazilError:
        raise
    except Exception as error:  # noqa: BLE001 - every client has errors of its own
        if _has_no_tables(error):
            raise NoLakeError(pipeline.lake.warehouse) from None
        # The text of a client's error can carry the address with its password.
        raise CatalogError(
            f"the {kind} catalog does not answer: {type(error).__name__}",
            hint="look at lake.catalog in the declaration, and whether the service is up",
        ) from None


def _jdbc(settings: Mapping[str, str]) -> Located:
    address = settings["uri"].removeprefix("jdbc:")
    with contextlib.closing(_connected(address, settings)) as connection:
        cursor = connection.cursor()
        cursor.execute(TABLES_SQL)
        return {(namespace, name): location for namespace, name, location in cursor.fetchall()}


def _has_no_tables(error: Exception) -> bool:
    """Whether a database is there and Iceberg never wrote to it: its first run makes the catalog's own tables."""
    # PostgreSQL has a code for it; SQLite has one for every mistake, and words.
    is_sqlite = isinstance(error, sqlite3.OperationalError)
    return getattr(error, "pgcode", None) == _UNDEFINED_TABLE or (is_sqlite and "no such table" in str(error))


def _connected(address: str, settings: Mapping[str, str]) -> Any:
    if address.startswith("sqlite:"):
        path, _, _ = address.removeprefix("sqlite:").partition("?")
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    if not address.startswith("postgresql:"):
        kind = address.partition(":")[0]
        raise CatalogClientError(f"there is no reader for a JDBC catalog on {kind}, only for postgresql and sqlite")
    parts = urlsplit(address)
    given = dict(parse_qsl(parts.query))
    known = {name: text for name, text in given.items() if name in _POSTGRES_SETTINGS}
    if "currentSchema" in given:
        known["options"] = f"-csearch_path={given['currentSchema']}"
    login = {name: settings[f"jdbc.{name}"] for name in ("user", "password") if f"jdbc.{name}" in settings}
    return import_module("psycopg2").connect(
        urlunsplit(parts._replace(query=urlencode(known))), connect_timeout=10, **login
    )


def _service(pipeline: Pipeline, settings: Mapping[str, str]) -> Located:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra, and seconds to import

    catalog = load_catalog(CATALOG, **{name: text for name, text in settings.items() if name != "io-impl"})
    names = pipeline.lake.namespaces
    wanted = dict.fromkeys((names.bronze, names.silver, names.marts, names.gold))
    return {
        (namespace, path[-1]): catalog.load_table(path).metadata_location
        for namespace in wanted
        for path in _listed(catalog, namespace)
    }


def _listed(catalog: Any, namespace: str) -> Iterator[tuple[str, ...]]:
    from pyiceberg.exceptions import NoSuchNamespaceError  # noqa: PLC0415

    with contextlib.suppress(NoSuchNamespaceError):
        yield from catalog.list_tables(namespace)
