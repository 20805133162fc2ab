"""Build the reports with dbt on Trino whenever orders have changed."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG, task
from frazil_airflow.assets import table_asset

PROJECT = Path(__file__).resolve().parent / "dbt"

with DAG(
    "shop_reports", schedule=[table_asset("shop", "marts.orders")], max_active_runs=1, tags=["dbt"], doc_md=__doc__
):

    @task.bash
    def dbt_build() -> str:
        """Build all models and run their tests; dbt has an environment of its own."""
        return f"{os.environ['DBT']} build --project-dir {PROJECT} --profiles-dir {PROJECT}"

    dbt_build()
