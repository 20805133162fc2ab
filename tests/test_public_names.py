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


def imported_by(code: str) -> set[str]:
    """Return which of the packages that take long to import a program has imported."""
    slow = {"pydantic", "pyspark", "pyarrow", "duckdb", "pandas", "numpy", "sqlglot", "typer"}
    program = f"import sys; {code}; print(*sorted({slow} & set(sys.modules)))"

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    return {*said.stdout.split()}


@pytest.mark.process
def test_a_declaration_is_loaded_without_spark() -> None:
    """A command that only validates must not wait for what it does not need."""
    assert imported_by("import frazil; frazil.api.plan; frazil.load; frazil.Table") == {"pydantic"}


@pytest.mark.process
def test_the_command_listens_to_signals_before_it_imports_anything_slow() -> None:
    assert imported_by("from frazil.cli import interrupt, main") == set()


@pytest.mark.process
def test_a_command_waits_for_no_other_command() -> None:
    """``frazil test`` needs DuckDB, ``frazil init`` does not."""
    name_one = "from frazil.cli.main import app; from typer.testing import CliRunner; "
    assert imported_by(name_one + "CliRunner().invoke(app, ['init', '--help'])") <= {"typer", "pydantic"}
