"""The four engines, each asked for the rows of a mart as its users ask it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import trino
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

import frazil
from bench.engines.orders import COLUMNS
from frazil import api
from frazil.catalog.conf import PREFIX, catalog_conf, pyiceberg_properties
from frazil.serve.tables import tables
from frazil.spark.session import spark_session
from frazil.spec import CATALOG, ServiceCatalog

if TYPE_CHECKING:
    from pathlib import Path

Rows = list[tuple[Any, ...]]


class Engine(Protocol):
    """A reader of a lake."""

    def rows(self, mart: str, snapshot: int | None = None) -> Rows:
        """Return the rows of a mart in the columns of ``COLUMNS``; as they were at a snapshot, or as they are."""


@dataclass(frozen=True, slots=True)
class Spark:
    """The session that Frazil works in."""

    folder: Path

    def rows(self, mart: str, snapshot: int | None = None) -> Rows:
        """Ask in Spark's SQL."""
        then = "" if snapshot is None else f" VERSION AS OF {snapshot}"
        session = spark_session(frazil.load(self.folder))
        sql = f"SELECT {', '.join(COLUMNS[mart])} FROM {CATALOG}.marts.{mart}{then}"
        return [tuple(row) for row in session.sql(sql).collect()]


@dataclass(frozen=True, slots=True)
class DuckDB:
    """DuckDB, as ``frazil query`` opens it."""

    folder: Path

    def rows(self, mart: str, snapshot: int | None = None) -> Rows:
        """Ask by ``frazil query``, with ``--as-of`` for a snapshot."""
        then = None if snapshot is None else f"snapshot:{snapshot}"
        return api.query(self.folder, f"SELECT {', '.join(COLUMNS[mart])} FROM marts.{mart}", as_of=then).rows


@dataclass(frozen=True, slots=True)
class PyIceberg:
    """PyIceberg by itself: tables of services by their catalog, others by the metadata file that the catalog names."""

    folder: Path

    def table(self, mart: str) -> Any:
        """Return a table of PyIceberg; what is static cannot be written."""
        pipeline = frazil.load(self.folder)
        conf = {
            name.removeprefix(f"{PREFIX}."): text for name, text in catalog_conf(pipeline).items() if name != PREFIX
        }
        properties = pyiceberg_properties(conf)
        if isinstance(pipeline.lake.catalog, ServiceCatalog):
            return load_catalog(CATALOG, **properties).load_table(("marts", mart))
        return StaticTable.from_metadata(tables(pipeline)["marts", mart], properties)

    def rows(self, mart: str, snapshot: int | None = None) -> Rows:
        """Scan into Arrow."""
        names = COLUMNS[mart]
        found = self.table(mart).scan(selected_fields=names, snapshot_id=snapshot).to_arrow().to_pylist()
        return [tuple(row[name] for name in names) for row in found]


@dataclass(frozen=True, slots=True)
class Trino:
    """The Trino of ``frazil serve trino``, by its Python client."""

    port: int

    def ask(self, *statements: str) -> Rows:
        """Run statements in one session, and return what the last one gives."""
        at = {"host": "127.0.0.1", "port": self.port, "user": "me", "catalog": CATALOG, "schema": "marts"}
        rows: Rows = []
        with closing(trino.dbapi.connect(**at)) as session:
            for sql in statements:
                cursor = session.cursor()
                cursor.execute(sql)
                rows = [tuple(row) for row in cursor.fetchall()]
        return rows

    def rows(self, mart: str, snapshot: int | None = None) -> Rows:
        """Ask in Trino's SQL."""
        then = "" if snapshot is None else f" FOR VERSION AS OF {snapshot}"
        return self.ask(f"SELECT {', '.join(COLUMNS[mart])} FROM {mart}{then}")
