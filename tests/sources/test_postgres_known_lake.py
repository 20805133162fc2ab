"""IDENTITY, LOUD: tables of PostgreSQL that are altered are right in the lake, or their run fails, alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.sources.replay import declare

import frazil
from frazil import api
from frazil.runner.report import RunFailedError
from frazil.serve.query.query import query
from frazil.serve.schema import schema
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.server]

BEFORE = """
CREATE TABLE moved (id int PRIMARY KEY, v text); INSERT INTO moved VALUES (1, 'a');
CREATE TABLE swapped (id int PRIMARY KEY, v text); INSERT INTO swapped VALUES (1, 'a'), (2, 'b'), (3, 'c');
CREATE TABLE filled (id int PRIMARY KEY, v text); INSERT INTO filled SELECT g, 'x' FROM generate_series(1, 30) g;
CREATE TABLE parts (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
INSERT INTO parts VALUES (1, '2024-01-05');
CREATE TABLE gen (id int PRIMARY KEY, net int, gross int GENERATED ALWAYS AS (net * 2) STORED);
INSERT INTO gen (id, net) VALUES (1, 1);
CREATE TABLE was (id int PRIMARY KEY, net int, gross int GENERATED ALWAYS AS (net * 2) STORED);
INSERT INTO was (id, net) VALUES (1, 1), (2, 2), (3, 3)"""

AFTER = """
ALTER TABLE moved RENAME TO moved2; INSERT INTO moved2 VALUES (2, 'b'); UPDATE moved2 SET v = 'A' WHERE id = 1;
CREATE TABLE new (id bigint PRIMARY KEY, v text); INSERT INTO new VALUES (1, 'A!'), (2, 'b'), (4, 'd');
BEGIN; ALTER TABLE swapped RENAME TO old; ALTER TABLE new RENAME TO swapped; COMMIT; DELETE FROM swapped WHERE id = 2;
ALTER TABLE filled ADD COLUMN n int NOT NULL DEFAULT 7; UPDATE filled SET n = 8 WHERE id = 30;
CREATE TABLE parts_2 (id int, day date, PRIMARY KEY (id, day)); INSERT INTO parts_2 VALUES (2, '2024-02-05');
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
UPDATE parts SET day = '2024-02-07' WHERE id = 1;
ALTER TABLE was ALTER COLUMN gross DROP EXPRESSION; UPDATE was SET gross = 9 WHERE id = 1"""

NOW = {"moved": "moved2"}


def declared(folder: Path, keys: Mapping[str, str]) -> Pipeline:
    """Declare current marts of tables, of which a reload may delete all rows; ``keys`` are their keys by name."""
    declare(folder, {f"public.{name}": key for name, key in keys.items()})
    file = folder / "frazil.yml"
    text = file.read_text(encoding="utf-8").replace("./landing}", "./landing, max_delete_fraction: 1}")
    file.write_text(
        text.replace("marts: [{kind: current}, {kind: history}]", "marts: [{kind: current}]"), encoding="utf-8"
    )
    return frazil.load(folder)


def run(pipeline: Pipeline) -> dict[str, str]:
    """Run; return the codes of the tables that fail."""
    try:
        frazil.run(pipeline, spark=spark_session(pipeline))
    except RunFailedError as error:
        return {one.name: one.code for one in error.report.errors}
    return {}


@pytest.mark.parametrize("everything", [pytest.param(False, marks=pytest.mark.laws), True])
def test_marts_of_altered_tables_are_those_of_the_source(
    *, everything: bool, database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    names = ["moved", "swapped", "filled", "parts", "gen", "was"]
    pipeline = declared(tmp_path, {name: "id, day" if name == "parts" else "id" for name in names})

    with psycopg.connect(database, autocommit=True) as session:
        if everything:
            session.execute("CREATE PUBLICATION frazil FOR ALL TABLES WITH (publish_via_partition_root = true)")
        for part in BEFORE.split(";"):
            session.execute(part.encode())
        assert run(pipeline) == {}
        assert schema(pipeline, "gen").left_out == ("gross",)
        for part in AFTER.split(";"):
            session.execute(part.encode())
        assert run(pipeline) == {"swapped": "FZ709"}
        api.reload(pipeline, ["swapped"])
        assert run(pipeline) == {}

        for name in names:
            columns = {"filled": "id, n", "parts": "id, day", "gen": "id, net", "was": "id, net, gross"}.get(
                name, "id, v"
            )
            there: list[Any] = session.execute(
                f"SELECT {columns} FROM {NOW.get(name, name)} ORDER BY 1".encode()
            ).fetchall()
            assert query(pipeline, f"SELECT {columns} FROM marts.{name} ORDER BY 1").rows == there
    findings = [*api.check_source(pipeline)]
    assert {one.ok for one in findings} == {True}
    assert [one for one in findings if "(generated there and in no copy: gross)" in one.detail]


def test_equal_rows_prove_nothing_while_a_column_has_not_come(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOUD: a renamed column is in no mart, so none of its values are compared."""
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    declare(tmp_path, {"public.renamed": "id", "public.wider": "id"})
    pipeline = frazil.load(tmp_path)

    def found() -> dict[str, tuple[bool | None, str]]:
        return {one.source_table: (one.ok, one.detail.rpartition("; ")[2]) for one in api.check_source(pipeline)}

    with psycopg.connect(database, autocommit=True) as session:
        for name in ("renamed", "wider"):
            session.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)".encode())
            session.execute(f"INSERT INTO {name} VALUES (1, 'a')".encode())
        assert run(pipeline) == {}
        session.execute("ALTER TABLE renamed RENAME v TO w; UPDATE renamed SET w = 'b'")
        session.execute("ALTER TABLE wider ADD COLUMN w int, ADD COLUMN x int")
        empty = found()["wider"]
        session.execute("ALTER TABLE wider ADD COLUMN y int DEFAULT 7")

        before = found()
        assert run(pipeline) == {"renamed": "FZ508"}
        after = found()

    assert empty == (True, "all are the same")  # NULL in all rows, as here
    assert before["renamed"] == (None, "w has not come here yet")
    assert (after["renamed"][0], "its newest run failed ([FZ508] " in after["renamed"][1]) == (None, True)
    assert before["wider"] == (None, "w, x, y have not come here yet")
    assert after["wider"] == (True, "all are the same")
