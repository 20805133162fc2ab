"""Tables of a pipeline as assets of Airflow: who is scheduled on one runs when it has a new snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from collections.abc import Iterator


def table_asset(pipeline: str, table: str) -> Asset:
    """Return the asset of a table, as ``table_asset("shop", "marts.orders")``.

    Args:
        pipeline: the name in the declaration's ``pipeline:``.
        table: layer and name, as ``marts.orders``, ``gold.revenue_by_day`` or ``silver.orders_quarantine``.
    """
    return Asset(name=f"{pipeline}.{table}", uri=f"iceberg://{pipeline}/{table.replace('.', '/')}")


def tables_of(project: str) -> AssetAlias:
    """Return the alias under which a run of a project announces its tables: whatever table has a new snapshot."""
    return AssetAlias(name=f"frazil:{project}")


def commits(report: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Give each table that a run has committed, and what its event carries.

    Snapshot ids are text: they pass 2^53, so a page's JavaScript would show other numbers.
    """
    for part in (*report.get("tables", ()), *report.get("gold", ())):
        for table, snapshot in part.get("commits", {}).items():
            yield table, {"snapshot_id": str(snapshot), "run_id": report["run_id"]}
