"""A home for Airflow that lives as long as the tests: set before anything imports it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = Path(tempfile.mkdtemp(prefix="frazil-airflow-"))
EXAMPLES = Path(__file__).parents[3] / "examples"

SHOP = """
import sys
import psycopg
sys.path.insert(0, sys.argv[1])
from shop import ORDERS, insert
from faker import Faker
from frazil import api
from frazil.testing.postgres import postgres_server
with postgres_server() as server, psycopg.connect(server.url, autocommit=True) as shop:
    shop.execute(ORDERS)
    shop.execute(api.audit_trigger("public.audit_log_dml", ["public.orders"]))
    insert(shop, Faker(), 1, 20)
    print(server.url, flush=True)
    sys.stdin.read()
"""

os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__PARALLELISM": "2",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
}


def current_snapshot(lake: Path, table: str) -> str:
    """The id that the newest metadata file of a table gives."""
    newest = max(lake.glob(f"{table}/metadata/*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    return str(json.loads(newest.read_text())["current-snapshot-id"])


@pytest.fixture(scope="session", autouse=True)
def home() -> Iterator[Path]:
    """Airflow's folder with an empty database, gone afterwards."""
    (HOME / "dags").mkdir()
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
    yield HOME
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A copy of the example that the test names, in the folder where Airflow looks for DAGs."""
    copy = HOME / "dags" / request.param
    shutil.copytree(EXAMPLES / request.param, copy, ignore=shutil.ignore_patterns("lake"))
    yield copy
    shutil.rmtree(copy)


@pytest.fixture
def shop_db() -> Iterator[str]:
    """Address of a real PostgreSQL with orders and their audit log, which the engine's environment starts."""
    frazil = shutil.which("frazil")
    assert frazil, "these tests need frazil on the PATH: make e2e"
    words = [str(Path(frazil).with_name("python")), "-c", SHOP, str(EXAMPLES / "shop")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()
