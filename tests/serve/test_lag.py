"""``frazil status`` says how far the landing files of captured tables are behind their servers, or why it cannot."""

from __future__ import annotations

import json
import shutil
import socket
import time
from threading import Event
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.hostile.situation import command
from tests.sources.replay import declare, land

import frazil
from frazil import api
from frazil.sources.postgres.errors import SlotLostError
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def captured(database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a table of PostgreSQL that everything is landed of."""
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id int PRIMARY KEY, doc text); INSERT INTO orders VALUES (1, 'a')")
        declare(tmp_path, {"public.orders": "id"})
        pipeline = frazil.load(tmp_path)
        frazil.run(pipeline, spark=spark_session(pipeline))
    return tmp_path


def lag_of(folder: Path) -> dict[str, Any]:
    said = command("status", f"{folder}", "--json")
    assert said.code == 0
    [table] = json.loads(said.stdout)["tables"]
    [lag] = table["captured"]
    return dict(lag)


def test_bytes_and_seconds_grow_until_the_changes_are_landed(captured: Path, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("INSERT INTO orders SELECT g, repeat('x', 1000) FROM generate_series(2, 1000) g")
    behind = lag_of(captured)
    assert behind["behind_bytes"] > 1_000_000
    assert behind["behind_seconds"] > 0
    assert f"{behind['behind_bytes']:,} bytes, up to " in command("status", f"{captured}").stdout

    land(captured)

    level = lag_of(captured)
    assert level["behind_bytes"] < 100_000, "another database of the server may write a little"
    assert (level["begun"], level["trouble"]) == (True, None)


def test_missed_changes_do_not_count_as_lag(captured: Path, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("SELECT pg_drop_replication_slot('frazil')")

    lag = lag_of(captured)

    assert lag["trouble"] == "[FZ705] the slot is gone; changes may be missing"
    assert "frazil capture --reload orders; frazil run" in lag["hint"]
    assert lag["behind_bytes"] is None


def test_status_shows_the_lake_without_a_reachable_server(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DB", "postgresql://postgres:hidden@127.0.0.1:1/none")

    said, lag = command("status", f"{captured}"), lag_of(captured)

    assert said.code == 0
    assert "slot frazil of ${env:TEST_DB}: lag unknown: [FZ210] " in said.stdout
    assert "hint: check that the server runs" in said.stdout
    assert "marts.orders_history" in said.stdout
    assert (lag["begun"], lag["behind_bytes"], lag["behind_seconds"]) == (None, None, None)
    assert "hidden" not in said.text


def test_a_server_that_is_silent_is_not_waited_for(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("TEST_DB", f"postgresql://postgres:hidden@127.0.0.1:{port}/none")
        began = time.monotonic()

        said = command("status", f"{captured}")

    assert time.monotonic() - began < 15
    assert "no answer within 5 s" in said.stdout
    assert "marts.orders_history" in said.stdout


def test_a_lost_landing_folder_is_told_before_anything_is_captured(captured: Path, database: str) -> None:
    """By ``status`` and ``doctor``, which change nothing; a second host has such a folder too."""
    shutil.rmtree(captured / "landing")
    with psycopg.connect(database) as session:
        confirmed = session.execute("SELECT confirmed_flush_lsn FROM pg_replication_slots").fetchall()

    [table] = json.loads(command("status", f"{captured}", "--json").stdout)["tables"]
    findings = json.loads(command("doctor", f"{captured}", "--json").stdout)

    assert table["trouble"].startswith("[FZ705] table 'orders': the lake has files of landing/public.orders")
    [found] = [one for one in findings if one["what"] == "landing of orders"]
    assert (found["ok"], found["detail"][:7]) == (False, "[FZ705]")
    assert found["hint"].endswith("frazil capture --reload orders")
    assert not (captured / "landing").exists()
    with pytest.raises(SlotLostError, match="was lost or replaced"):
        api.capture(captured, Event())
    with psycopg.connect(database) as session:
        assert session.execute("SELECT confirmed_flush_lsn FROM pg_replication_slots").fetchall() == confirmed
