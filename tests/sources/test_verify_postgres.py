"""``verify``: a run compares a table of PostgreSQL with its mart, also one that changes all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from tests.hostile.situation import command
from tests.sources.compared import found, run
from tests.sources.replay import declare

import frazil
from frazil.serve.checks import last_checks
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.runner.report import RunReport
    from frazil.serve.checks import Verified
    from frazil.spec import Pipeline


def declare_verified(folder: Path) -> None:
    declare(folder, {"public.orders": "id"})
    with (folder / "frazil.yml").open("a", encoding="utf-8") as file:
        file.write("verify: {every: 1d}\n")


def mark(pipeline: Pipeline) -> Verified:
    known = last_checks(pipeline)["orders"].verified
    assert known is not None
    return known


def ran(pipeline: Pipeline) -> RunReport:
    return frazil.run(pipeline, spark=spark_session(pipeline))


def test_a_run_verifies_what_is_due_and_ends_with_9_where_a_mart_differs(here: Path, database: str) -> None:
    declare_verified(here)
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id int PRIMARY KEY, qty int)")
        session.execute("INSERT INTO orders SELECT g, g FROM generate_series(1, 100) g")
    pipeline = frazil.load(here)

    first, second = ran(pipeline), ran(pipeline)
    status = command("status", f"{here}").text
    spark_session(pipeline).sql("UPDATE lake.marts.orders SET qty = -1 WHERE id = 7")
    (here / "lake" / ".frazil" / "checks" / "latest.json").unlink()
    third = ran(pipeline)

    assert [(one.table, one.ok) for one in first.verified] == [("orders", True)]
    assert (first.exit_code, second.verified) == (0, [])
    assert "verified through " in status
    assert ": public.orders of ${env:TEST_DB} at 0/" in status
    assert [(one.table, one.ok) for one in third.verified] == [("orders", False)]
    assert "1 written by somebody else" in third.verified[0].detail
    assert (third.exit_code, third.tables[0].outcome, third.errors) == (9, "nothing new", [])


def test_a_table_with_changes_on_their_way_is_verified_by_several_comparisons(here: Path, database: str) -> None:
    declare_verified(here)
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id int PRIMARY KEY, qty int)")
        session.execute("INSERT INTO orders SELECT g, g FROM generate_series(1, 100) g")
        pipeline = run(here)
        (here / "lake" / ".frazil" / "checks" / "latest.json").unlink()

        session.execute("UPDATE orders SET qty = 0 WHERE id = 1")
        assert found(pipeline).ok is None
        first = mark(pipeline)
        run(here)
        session.execute("UPDATE orders SET qty = 0 WHERE id = 2")
        assert found(pipeline).ok is None
        second = mark(pipeline)

    assert (first.at, second.at) == (None, first.tried_at)
    assert second.tried_at > first.tried_at
