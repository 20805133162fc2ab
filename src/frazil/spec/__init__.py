"""The declaration: frozen values, without Spark and without side effects."""

from __future__ import annotations

from frazil.spec.model.column import Age, Column, Freshness, References, RowCount, Rule
from frazil.spec.model.kinds import AuditLog, Debezium, DmsFiles, Handover, Postgres, Sharded, Snapshots
from frazil.spec.model.mart import Current, Gold, History
from frazil.spec.model.notify import Email, Notify
from frazil.spec.model.pipeline import (
    CATALOG,
    EmbeddedCatalog,
    JdbcCatalog,
    Lake,
    Namespaces,
    Pipeline,
    Retention,
    ServiceCatalog,
    Table,
    Upkeep,
    Verify,
)
from frazil.spec.model.stores import Store
from frazil.spec.model.types import Evolution

__all__ = [
    "CATALOG",
    "Age",
    "AuditLog",
    "Column",
    "Current",
    "Debezium",
    "DmsFiles",
    "Email",
    "EmbeddedCatalog",
    "Evolution",
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
    "ServiceCatalog",
    "Sharded",
    "Snapshots",
    "Store",
    "Table",
    "Upkeep",
    "Verify",
]
