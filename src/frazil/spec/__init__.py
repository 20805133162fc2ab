"""What a user writes: values only, no Spark, no side effects."""

from __future__ import annotations

from frazil.spec.mart import Current, Gold, History
from frazil.spec.pipeline import (
    CATALOG,
    Column,
    EmbeddedCatalog,
    JdbcCatalog,
    Lake,
    Namespaces,
    Pipeline,
    ServiceCatalog,
    Table,
)
from frazil.spec.source import DmsFiles
from frazil.spec.upkeep import Upkeep

__all__ = [
    "CATALOG",
    "Column",
    "Current",
    "DmsFiles",
    "EmbeddedCatalog",
    "Gold",
    "History",
    "JdbcCatalog",
    "Lake",
    "Namespaces",
    "Pipeline",
    "ServiceCatalog",
    "Table",
    "Upkeep",
]
