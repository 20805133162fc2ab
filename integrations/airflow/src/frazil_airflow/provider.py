"""Provider metadata that Airflow reads through the package's entry point."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the package's metadata and modules for Airflow's list of providers."""
    name = "Frazil"
    return {
        "package-name": "airflow-provider-frazil",
        "name": name,
        "description": "Database changes as exact Iceberg tables",
        "integrations": [{"integration-name": name, "tags": ["software"]}],
        "operators": [{"integration-name": name, "python-modules": ["frazil_airflow.operators"]}],
        "triggers": [{"integration-name": name, "python-modules": ["frazil_airflow.files"]}],
    }
