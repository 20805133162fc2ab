"""What a user may import is exactly what ``__all__`` says, and importing it starts nothing."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import frazil
import frazil.api
import frazil.testing


def test_the_public_names_are_exactly_all() -> None:
    assert frazil.__all__ == [
        "Age",
        "AuditLog",
        "Column",
        "Current",
        "Debezium",
        "DmsFiles",
        "Email",
        "EmbeddedCatalog",
        "Evolution",
        "FrazilError",
        "Freshness",
        "Gold",
        "Handover",
        "History",
        "JdbcCatalog",
        "Lake",
        "Namespaces",
        "Notify",
        "Pipeline",
        "Postgres",
        "References",
        "Retention",
        "RowCount",
        "Rule",
        "RunFailedError",
        "RunReport",
        "ServiceCatalog",
        "Sharded",
        "Snapshots",
        "Store",
        "Table",
        "Upkeep",
        "Verify",
        "api",
        "connect",
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


def test_every_type_that_a_function_returns_can_be_imported_from_the_api() -> None:
    words = {"tuple", "dict", "list", "str", "int", "bool", "None", "Any", "Pipeline", "SparkSession"}
    functions = [value for name in frazil.api.__all__ if inspect.isfunction(value := getattr(frazil.api, name))]
    returned = {word for one in functions for word in re.findall(r"\w+", one.__annotations__["return"])}

    assert returned - words - {*frazil.api.__all__} == {"AbstractContextManager"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        frazil.Tabel  # noqa: B018 - looking is the test
    with pytest.raises(AttributeError, match="no attribute 'Plam'"):
        frazil.api.Plam  # noqa: B018


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


@pytest.mark.parametrize(
    "file",
    [
        "pyproject.toml",
        "integrations/airflow/pyproject.toml",
        "integrations/dbt/dbt_project.yml",
        "integrations/aws/glue_job.json",
    ],
)
def test_what_names_the_version_names_that_of_the_package(file: str) -> None:
    text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")

    found = re.findall(r"^version(?: = |: )\"?([\d.]+)|frazil-([\d.]+)-py3|frazil-docs==([\d.]+)", text, re.MULTILINE)
    assert {"".join(one) for one in found} == {frazil.__version__}
