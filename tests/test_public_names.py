"""What a user may import is exactly what ``__all__`` says, and importing it starts nothing."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import frazil
import frazil.api
import frazil.testing


def test_the_public_names_are_exactly_all() -> None:
    assert frazil.__all__ == [
        "AuditLog",
        "Column",
        "Current",
        "DmsFiles",
        "FrazilError",
        "Gold",
        "History",
        "Lake",
        "Pipeline",
        "Retention",
        "Rule",
        "RunFailedError",
        "RunReport",
        "Snapshots",
        "Table",
        "Upkeep",
        "api",
        "load",
        "run",
    ]
    assert all(hasattr(frazil, name) for name in frazil.__all__)


@pytest.mark.parametrize("module", [frazil, frazil.api, frazil.testing])
def test_every_public_name_is_documented(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        value = getattr(module, name)
        if callable(value):
            assert inspect.getdoc(value), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        frazil.Tabel  # noqa: B018 - looking is the test


@pytest.mark.process
def test_a_declaration_is_loaded_without_spark() -> None:
    """A command that only validates must not wait for what it does not need."""
    code = (
        "import sys, frazil; frazil.api.plan; frazil.load; frazil.Table; "
        "print(sorted({'pyspark', 'pyarrow', 'duckdb', 'pandas', 'numpy', 'sqlglot'} & set(sys.modules)))"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "[]"
