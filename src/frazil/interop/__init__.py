"""Other tools: Airflow, dbt, Trino."""

from __future__ import annotations
