"""Tables of a pipeline as Airflow assets: a DAG that is scheduled on one runs when it has a new snapshot."""

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
    """Return the alias of a project; a run emits through it an event for every table with a new snapshot."""
    return AssetAlias(name=f"frazil:{project}")


def commits(report: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each table that a run has committed, with the extra values of its event.

    Snapshot IDs are text: they exceed 2^53, so JavaScript would round them.
    """
    for part in (*report.get("tables", ()), *report.get("gold", ())):
        for table, snapshot in part.get("commits", {}).items():
            yield table, {"snapshot_id": str(snapshot), "run_id": report["run_id"]}
