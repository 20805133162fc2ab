"""ERASE, a table of PostgreSQL: everyone else's rows stay in the landing files, for a new beginning too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pyarrow.parquet as pq
import pytest
from tests.failing import run_fails_with
from tests.sources.replay import declare

import frazil
from frazil import api
from frazil.failpoints import FailpointReached
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = [("ann@example.org", "Oslo"), ("bob@example.org", "Rome"), ("cyd@example.org", "Bergen")]
PEOPLE = "SELECT email, city FROM marts.people ORDER BY email"


@pytest.mark.long
def test_a_new_beginning_has_the_rows_that_shared_a_landing_file_with_a_subject(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    declare(tmp_path, {"public.people": "email"})
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)
    with psycopg.connect(database, autocommit=True) as server:
        server.execute("CREATE TABLE people (email text PRIMARY KEY, city text)")
        for row in ROWS:
            server.execute("INSERT INTO people VALUES (%s, %s)", row)
        frazil.run(pipeline, spark=session)

        # Killed when the file has lost the record and the ledger does not say so: runs go on.
        monkeypatch.setenv("FRAZIL_FAILPOINT", "erase.after_landed:raise")
        with pytest.raises(FailpointReached):
            api.erase(pipeline, "people", keys=["bob@example.org"], spark=session)
        monkeypatch.delenv("FRAZIL_FAILPOINT")
        server.execute("UPDATE people SET city = 'Turin' WHERE email = 'bob@example.org'")
        frazil.run(pipeline, spark=session)
        report = api.erase(pipeline, "people", keys=["bob@example.org"], spark=session)
        frazil.run(pipeline, spark=session)

    others = [ROWS[0], ROWS[2]]
    assert report.proof is not None
    assert report.proof.is_clean
    # The first rows, and the change that arrived later and that bronze never held.
    assert (len(report.rewritten), report.files) == (2, ())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if b"bob@example.org" in path.read_bytes()] == []
    assert query(pipeline, PEOPLE).rows == others
    assert [finding for finding in check(pipeline) if finding.ok is False] == []

    frazil.api.drop(tmp_path, api.droppable(tmp_path, ["people"]), spark=session)
    frazil.run(pipeline, spark=session)
    assert query(pipeline, PEOPLE).rows == others
    assert query(pipeline, "SELECT count(*) FROM silver.people_quarantine").rows == [(0,)]
    assert [finding for finding in check(pipeline) if finding.ok is False] == []


@pytest.mark.long
def test_landing_files_lose_a_subject_that_the_source_sends_again(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a later change, by a new read of the table, and after a run that was killed in between."""
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    declare(tmp_path, {"public.people": "email"})
    pipeline = frazil.load(tmp_path)
    session = spark_session(pipeline)

    def landed() -> set[str]:
        files = (tmp_path / "landing").rglob("*.parquet")
        return {f"{value}" for file in files for value in pq.read_table(file).column("email").to_pylist()} - {"None"}

    with psycopg.connect(database, autocommit=True) as server:
        server.execute("CREATE TABLE people (email text PRIMARY KEY, city text)")
        for row in ROWS:
            server.execute("INSERT INTO people VALUES (%s, %s)", row)
        frazil.run(pipeline, spark=session)
        api.erase(pipeline, "people", keys=["bob@example.org"], spark=session)

        server.execute("UPDATE people SET city = 'Turin'")
        frazil.run(pipeline, spark=session)
        by_change = landed()
        api.reload(pipeline, ["people"])
        frazil.run(pipeline, spark=session)
        by_reload = landed()
        server.execute("UPDATE people SET city = 'Pisa'")
        monkeypatch.setenv("FRAZIL_FAILPOINT", "bronze.after_publish:raise")
        with run_fails_with(FailpointReached):
            frazil.run(pipeline, spark=session)
        monkeypatch.delenv("FRAZIL_FAILPOINT")
        killed = landed()
        server.execute("UPDATE people SET city = 'Bari' WHERE email = 'ann@example.org'")
        frazil.run(pipeline, spark=session)
        [at_source] = api.check_source(pipeline)
        server.execute("DELETE FROM people WHERE email = 'bob@example.org'")
        [without] = api.check_source(pipeline)
        frazil.run(pipeline, spark=session)

    assert (at_source.ok, "1 key that was erased here" in at_source.detail) == (True, True)
    assert (without.ok, "erased" in without.detail) == (True, False)
    others = {"ann@example.org", "cyd@example.org"}
    assert (by_change, by_reload, landed()) == (others, others, others)
    assert "bob@example.org" in killed
    assert query(pipeline, PEOPLE).rows == [("ann@example.org", "Bari"), ("cyd@example.org", "Pisa")]
    assert [finding for finding in check(pipeline) if finding.ok is False] == []
    assert frazil.run(pipeline, spark=session).steps == 0
    assert [one.touched for one in api.status(pipeline).tables] == [()]
