"""HANDOVER: an audit log that begins with the rows that its tables have already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.sources.writers import TABLES, Writers

import frazil
from frazil import api
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.spec import Pipeline

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
{tables}"""

TABLE = """
  - name: {name}
    source: {{kind: audit_log, url: "${{env:TEST_DB}}", log: audit.log, xid: audit_txid, old_data: old_data,
             table: "public.{table}", landing: ./landing}}
    keys: [{keys}]
    columns: [{columns}]
"""

COLUMNS = {
    "plain": ("id", "{name: id, type: int}, {name: qty, type: int}, {name: note}"),
    "pair": ("a, b", "{name: a, type: int}, {name: b}, {name: doc}, {name: at, type: timestamp}"),
    "whole": ("id", "{name: id, type: int}, {name: price, type: 'decimal(12,2)'}, {name: doc}"),
}


def declare(folder: Path, columns: dict[str, tuple[str, str]]) -> None:
    tables = "".join(
        TABLE.format(name=table.replace("'", ""), table=table, keys=keys, columns=some)
        for table, (keys, some) in columns.items()
    )
    (folder / "frazil.yml").write_text(DECLARATION.format(tables=tables))


def run(folder: Path) -> Pipeline:
    pipeline = frazil.load(folder)
    frazil.run(pipeline, spark=spark_session(pipeline))
    return pipeline


def test_a_log_that_begins_with_the_rows_of_its_tables_gives_the_tables(here: Path, database: str) -> None:
    """The triggers come while others write."""
    declare(here, COLUMNS)
    script = api.audit_trigger("audit.log", [f"public.{name}" for name in COLUMNS], rows=True).encode()
    with psycopg.connect(database, autocommit=True) as session:
        session.execute(TABLES)
        with Writers(database, seed=11):
            session.execute(script)
            run(here)
        records = session.execute("SELECT count(*) FROM audit.log").fetchone()
        session.execute(script)
        assert session.execute("SELECT count(*) FROM audit.log").fetchone() == records
    pipeline = run(here)

    for finding in api.check_source(pipeline):
        assert finding.ok is True, finding
        assert "not compared" not in finding.detail


def test_rows_of_partitions_are_logged_under_the_name_of_their_table(here: Path, database: str) -> None:
    declare(here, {"odd's": ("id", "{name: id, type: int}, {name: qty, type: int}")})
    with psycopg.connect(database, autocommit=True) as session:
        session.execute('CREATE TABLE "odd\'s" (id int PRIMARY KEY, qty int) PARTITION BY RANGE (id)')
        session.execute('CREATE TABLE low PARTITION OF "odd\'s" FOR VALUES FROM (0) TO (10)')
        session.execute('CREATE TABLE high PARTITION OF "odd\'s" FOR VALUES FROM (10) TO (20)')
        session.execute('INSERT INTO "odd\'s" VALUES (1, 1), (11, 2)')
        session.execute(api.audit_trigger("audit.log", ["public.odd's"], rows=True).encode())
        session.execute('UPDATE "odd\'s" SET qty = qty + 10')
        session.execute('INSERT INTO "odd\'s" VALUES (2, 3)')
    [finding] = api.check_source(run(here))

    assert finding.ok is True, finding
    assert finding.detail.startswith("3 rows here, 3 in ")
