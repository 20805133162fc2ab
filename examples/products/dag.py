"""Products, every quarter of an hour; proved and kept small every night."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param
from frazil_airflow.operators import FrazilCheckOperator, FrazilMaintainOperator, FrazilRunOperator

PROJECT = str(Path(__file__).resolve().parent)
AGAIN = {"retries": 3, "retry_delay": timedelta(minutes=1)}

with DAG(
    "products",
    schedule="*/15 * * * *",
    catchup=False,
    max_active_runs=1,
    default_args=AGAIN,
    params={
        "select": Param("", type="string", description="Tables, marts or aggregates, separated by commas; empty: all."),
        "full_refresh": Param(default=False, type="boolean", description="Rebuild silver and marts from bronze."),
    },
    tags=["frazil"],
    doc_md=__doc__,
):
    FrazilRunOperator(
        task_id="run", project=PROJECT, select="{{ params.select }}", full_refresh="{{ params.full_refresh }}"
    )

with DAG("products_nightly", schedule="0 3 * * *", catchup=False, default_args=AGAIN, tags=["frazil"], doc_md=__doc__):
    maintain = FrazilMaintainOperator(task_id="maintain", project=PROJECT)
    check = FrazilCheckOperator(task_id="check", project=PROJECT)
    maintain >> check
