"""Orders of a PostgreSQL every five minutes, with the rules of their contract; the password is Airflow's connection."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task
from frazil_airflow.assets import table_asset
from frazil_airflow.operators import FrazilCheckOperator, FrazilRunOperator, FrazilTestOperator

PROJECT = str(Path(__file__).resolve().parent)
SHOP = {"SHOP_DB": "{{ conn.shop.get_uri() }}"}
AGAIN = {"retries": 3, "retry_delay": timedelta(minutes=1)}

orders = table_asset("shop", "marts.orders")

with DAG(
    "shop",
    schedule="*/5 * * * *",
    catchup=False,
    max_active_runs=1,
    default_args=AGAIN,
    tags=["frazil"],
    doc_md=__doc__,
):
    run = FrazilRunOperator(task_id="run", project=PROJECT, env=SHOP)
    rules = FrazilTestOperator(task_id="test", project=PROJECT, env=SHOP)
    run >> rules

with DAG("shop_nightly", schedule="0 3 * * *", catchup=False, default_args=AGAIN, tags=["frazil"], doc_md=__doc__):
    FrazilCheckOperator(task_id="check", project=PROJECT, source=True, env=SHOP)

with DAG(
    "shop_mail", schedule=[orders], tags=["frazil"], doc_md="Runs when orders have changed, and knows their snapshot."
):

    @task
    def tell(triggering_asset_events: Any) -> list[str]:
        """Return the snapshots of orders that are new."""
        return [event.extra["snapshot_id"] for event in triggering_asset_events[orders]]

    tell()
