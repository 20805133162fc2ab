"""Frazil turns database changes into exact Apache Iceberg tables.

The rooms, in the order of the data. Each room imports only those above it::

    errors, spec, steps       errors, the declaration, steps of a run
    host                      this machine: cores, memory, scratch folders
    storage, formats          the files that sources deliver, and their records
    sources                   the kinds of sources: reading and capture
    bronze, silver, marts     raw records; typed changes; current tables and history
    gold, plan                aggregates; declaration and state in, steps out
    iceberg, catalog          the table format as files; catalogs and warehouses
    spark, duck, lake         Java and the session; DuckDB; transactions over tables
    audit, runner             certificates and records; does a plan
    erase, recover, past      erases subjects; repairs; cut, rollback, drop
    serve, interop            looks at the lake without a JVM; other tools
    api                       all of it as functions that return values
    ui                        the page in the browser
    cli                       the command

Importing this module starts nothing and does not import Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import FrazilError

if TYPE_CHECKING:
    from frazil import api
    from frazil.api import connect, load, run
    from frazil.runner.report import RunFailedError, RunReport
    from frazil.spec import (
        Age,
        AuditLog,
        Column,
        Current,
        Debezium,
        DmsFiles,
        Email,
        EmbeddedCatalog,
        Evolution,
        Freshness,
        Gold,
        Handover,
        History,
        JdbcCatalog,
        Lake,
        Namespaces,
        Notify,
        Pipeline,
        Postgres,
        References,
        Retention,
        RowCount,
        Rule,
        ServiceCatalog,
        Sharded,
        Snapshots,
        Store,
        Table,
        Upkeep,
    )

__version__ = "0.1.0"

__all__ = [
    "Age",
    "AuditLog",
    "Column",
    "Current",
    "Debezium",
    "DmsFiles",
    "Email",
    "EmbeddedCatalog",
    "Evolution",
    "FrazilError",
    "Freshness",
    "Gold",
    "Handover",
    "History",
    "JdbcCatalog",
    "Lake",
    "Namespaces",
    "Notify",
    "Pipeline",
    "Postgres",
    "References",
    "Retention",
    "RowCount",
    "Rule",
    "RunFailedError",
    "RunReport",
    "ServiceCatalog",
    "Sharded",
    "Snapshots",
    "Store",
    "Table",
    "Upkeep",
    "Verify",
    "api",
    "connect",
    "load",
    "run",
]


_MODULES: Final = {
    "RunFailedError": "frazil.runner.report",
    "RunReport": "frazil.runner.report",
    "connect": "frazil.api",
    "load": "frazil.api",
    "run": "frazil.api",
}
"""Modules of public names that ``frazil.spec`` does not define."""


def __getattr__(name: str) -> Any:
    # Spark and pydantic take half a second each to import: the command must listen to Ctrl-C
    # before, and one that only validates never needs Spark.
    if name not in __all__:
        raise AttributeError(f"module 'frazil' has no attribute {name!r}")
    if name == "api":
        return import_module("frazil.api")
    return getattr(import_module(_MODULES.get(name, "frazil.spec")), name)
