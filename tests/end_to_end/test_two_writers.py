"""Processes that write one catalog at once, where no lock reaches: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from time import sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest

from frazil import api
from frazil.errors import BusyError

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.testing.s3 import S3Server

pytestmark = pytest.mark.laws

ROUNDS = 2
CATALOG_BEFORE = """
CREATE TABLE iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
    PRIMARY KEY (catalog_name, table_namespace, table_name))"""
"""The table of a JDBC catalog as Iceberg makes it, before its own next statement."""
ALTERING = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"


def declare(folder: Path, s3: S3Server, database: str, table: str) -> Path:
    """Write a pipeline of one table: in one bucket and one catalog with all others."""
    address = urlsplit(database)
    (folder / "landing").mkdir(parents=True)
    (folder / "secret").write_text(s3.secret_access_key)
    (folder / "password").write_text(f"{address.password}")
    catalog = {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://{address.hostname}:{address.port}{address.path}",
        "user": address.username,
        "password": "${file:password}",
    }
    store = {
        "endpoint": s3.endpoint,
        "region": "us-east-1",
        "access_key_id": s3.access_key_id,
        "secret_access_key": "${file:secret}",
    }
    declared: dict[str, Any] = {
        "pipeline": table,
        "lake": {"warehouse": "s3://shared/lake", "catalog": catalog},
        "stores": {"s3://shared": store},
        "tables": [
            {
                "name": table,
                "source": {"kind": "dms", "path": "landing", "header": True},
                "keys": ["id"],
                "sequence_by": ["at"],
                "columns": [{"name": "id", "type": "int"}, {"name": "at", "type": "timestamp"}, {"name": "day"}],
                "marts": [{"kind": "current"}, {"kind": "history"}],
            }
        ],
    }
    (folder / "frazil.yml").write_text(json.dumps(declared))
    return folder


def deliver(folder: Path, day: int) -> None:
    """Land a file that has one new key, and the first key again."""
    records = [f"I,{day},2026-01-0{day} 00:00:00,new", f"U,1,2026-01-0{day} 12:00:00,{day}"]
    text = "\n".join(["op,id,at,day", *records, ""])
    (folder / "landing" / f"2026010{day}-000000000.csv").write_text(text)


def run_all(*folders: Path) -> list[int]:
    """Start a run of each folder at the same time, and return how they ended."""
    environment = {**os.environ, "FRAZIL_DRIVER_MEMORY": "1g"}
    runs = [
        subprocess.Popen([sys.executable, "-m", "frazil", "run"], cwd=folder, env=environment) for folder in folders
    ]
    return [run.wait(900) for run in runs]


def ids(folder: Path, mart: str) -> list[tuple[Any, ...]]:
    return api.query(folder, f"SELECT id, count(*) FROM marts.{mart} GROUP BY id ORDER BY id").rows


def test_two_runs_of_one_pipeline_lose_nothing_and_take_nothing_twice(
    s3: S3Server, database: str, tmp_path: Path
) -> None:
    s3.make_bucket("shared")
    shop = declare(tmp_path / "orders", s3, database, "orders")
    ended = []
    for day in range(1, ROUNDS + 1):
        deliver(shop, day)
        ended.append(sorted(run_all(shop, shop)))

    assert run_all(shop) == [0]
    assert ids(shop, "orders") == [(day, 1) for day in range(1, ROUNDS + 1)]
    assert ids(shop, "orders_history") == [(1, ROUNDS + 1), *((day, 1) for day in range(2, ROUNDS + 1))]
    assert all(proof.ok for proof in api.check(shop))
    assert {code for codes in ended for code in codes} <= {0, BusyError.exit_code}
    assert all(codes[0] == 0 for codes in ended)  # one of the two always gets through


def test_two_processes_can_create_the_catalog_at_once(s3: S3Server, database: str, tmp_path: Path) -> None:
    """The other one adds a column to the catalog's own table; the run finds it missing, and adds it too late."""
    s3.make_bucket("shared")
    shop = declare(tmp_path / "orders", s3, database, "orders")
    deliver(shop, 1)
    with psycopg.connect(database) as other, psycopg.connect(database, autocommit=True) as looking:
        other.execute(CATALOG_BEFORE)
        other.commit()
        other.execute("LOCK TABLE iceberg_tables IN SHARE MODE")  # it can be read, and not altered
        run = subprocess.Popen([sys.executable, "-m", "frazil", "run"], cwd=shop)
        while not looking.execute(ALTERING).fetchall():
            assert run.poll() is None
            sleep(0.1)
        other.execute("ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)")
        other.commit()
        assert run.wait(900) == 0

    assert ids(shop, "orders") == [(1, 1)]


def test_two_pipelines_write_one_catalog_at_once(s3: S3Server, database: str, tmp_path: Path) -> None:
    s3.make_bucket("shared")
    both = [declare(tmp_path / table, s3, database, table) for table in ("stock", "prices")]
    ended = []
    for day in range(1, ROUNDS + 1):
        for folder in both:
            deliver(folder, day)
        ended += run_all(*both)

    assert set(ended) == {0}
    for folder in both:
        assert ids(folder, folder.name) == [(day, 1) for day in range(1, ROUNDS + 1)]
        assert all(proof.ok for proof in api.check(folder))
