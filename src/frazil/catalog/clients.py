"""Libraries that read catalogs without Spark: the ones that a declaration needs, and the missing ones."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from frazil.spec import EmbeddedCatalog, JdbcCatalog

if TYPE_CHECKING:
    from frazil.spec.model.pipeline import Catalog

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
