"""Frazil for Apache Airflow 3. Operators run the command ``frazil``; they import neither Frazil nor Spark."""

from __future__ import annotations
