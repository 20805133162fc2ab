"""Exports and integrations for other tools: dbt, data contracts, Trino, Spark platforms, and observability."""

from __future__ import annotations
