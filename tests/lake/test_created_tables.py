"""What is said where a catalog makes no table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from frazil.catalog.trouble import CatalogError
from frazil.lake import tables
from frazil.plan.layout import TableLayout


def test_a_catalog_that_silently_creates_no_table_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg calls a first commit that fails a table that is there already, and IF NOT EXISTS forgives that."""
    asked: list[str] = []
    spark: Any = SimpleNamespace(sql=asked.append)

    monkeypatch.setattr(tables, "_columns", lambda *_: None)
    layout = TableLayout(path=("lake", "bronze", "orders"), columns={"id": "int"})

    with pytest.raises(CatalogError, match=r"did not make the table bronze\.orders"):
        tables.ensure(spark, layout)

    assert any(statement.startswith("CREATE TABLE IF NOT EXISTS") for statement in asked)
