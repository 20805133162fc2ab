"""Frazil for Apache Airflow 3. The engine runs as a command beside Airflow: nothing here imports it, or Spark."""

from __future__ import annotations
