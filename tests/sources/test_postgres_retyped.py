"""Types that PostgreSQL changes: rows are right or wait, with cause and way out, and come once they are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest
from tests.sources.replay import declare

import frazil
from frazil import api
from frazil.serve.query.query import query
from frazil.spark.session import spark_session
from frazil.steps import Normalize

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Case(NamedTuple):
    """A column ``v`` of rows 1 and 2, its change, and the value of rows 1 and 3 afterwards.

    Attributes:
        before, after: its types at the source; ``using`` converts.
        old, new: its values at the source, as SQL.
        waits: the type that the rows wait for; empty if they are taken at once.
        rows: values of rows 1 and 2 once the declaration says ``evolve``, as text.
    """

    before: str
    after: str
    old: str
    new: str
    rows: tuple[str, str]
    waits: str = ""
    using: str = "v"


CASES = {
    "larger": Case("int", "bigint", "7", "9007199254740993", ("9007199254740993", "7")),
    "longer": Case("varchar(5)", "text", "'abc'", "'longer than five'", ("longer than five", "abc")),
    "label": Case("mood", "mood", "'sad'", "'glad'", ("glad", "sad")),
    "smaller": Case("numeric(12,2)", "numeric(10,2)", "12.33", "1.50", ("1.50", "12.33")),
    "wider": Case("numeric(12,2)", "numeric(14,2)", "12.33", "123456789012.50", ("123456789012.50", "12.33")),
    "number": Case("text", "int", "'007'", "12", ("12", "7"), using="v::int"),
    "finer": Case("numeric(12,2)", "numeric(14,3)", "12.33", "1.125", ("1.125", "12.330"), "decimal(14,3)"),
    "exact": Case("int", "numeric", "7", "7.5", ("7.5", "7"), "string"),
    "zoned": Case(
        "timestamp",
        "timestamptz",
        "'2024-05-01 10:00:00'",
        "'2024-05-02 10:00:00+02'",
        ("2024-05-02 08:00:00+00", "2024-05-01 10:00:00+00"),
        "timestamp",
    ),
    "unzoned": Case(
        "timestamptz",
        "timestamp",
        "'2024-05-01 10:00:00+00'",
        "'2024-05-02 10:00:00'",
        ("2024-05-02 10:00:00", "2024-05-01 10:00:00"),
        "timestamp_ntz",
    ),
    "words": Case("int", "text", "7", "'seven'", ("seven", "7"), "string"),
    "padded": Case("int", "text", "7", "'007'", ("007", "7")),
}


def test_a_changed_type_takes_rows_or_they_wait_with_its_name_until_evolve(
    database: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    declare(tmp_path, {f"public.{name}": "id" for name in CASES})
    pipeline = frazil.load(tmp_path)

    with psycopg.connect(database, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        session.execute("CREATE TYPE mood AS ENUM ('sad')")
        for name, case in CASES.items():
            session.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v {case.before})".encode())
            session.execute(f"INSERT INTO {name} VALUES (1, {case.old}), (2, {case.old})".encode())
        frazil.run(pipeline, spark=spark_session(pipeline))
        session.execute("ALTER TYPE mood ADD VALUE 'glad'")
        for name, case in CASES.items():
            if case.before != case.after:
                session.execute(f"ALTER TABLE {name} ALTER v TYPE {case.after} USING {case.using}".encode())
            session.execute(f"UPDATE {name} SET v = {case.new} WHERE id = 1".encode())
            session.execute(f"INSERT INTO {name} VALUES (3, {case.new})".encode())
        report = {table.table: table for table in frazil.run(pipeline, spark=spark_session(pipeline)).tables}

    waiting = {name for name, case in CASES.items() if case.waits}
    assert {name for name, table in report.items() if table.quarantined} == waiting
    told = {name: table.warnings for name, table in report.items()}
    for name in waiting:
        assert f"v has the type {CASES[name].waits} at the source and is" in told[name][-1]
        assert "evolution: {on_type_change: evolve}" in told[name][-1]
    assert "v is string at the source now and int here" in "".join(told["padded"])

    # Rows that wait differ, for a named reason; texts that became numbers are not called equal.
    compared = {finding.source_table: finding for finding in api.check_source(tmp_path)}
    assert {name for name, finding in compared.items() if finding.ok is False} == waiting
    assert {name for name, finding in compared.items() if finding.ok is None} == {"padded"}
    assert all("on_type_change: evolve" in (compared[name].hint or "") for name in (*waiting, "padded"))

    # What the declaration takes now comes without a new change.
    text = (tmp_path / "frazil.yml").read_text(encoding="utf-8")
    evolving = text.replace("    marts:", "    evolution: {on_type_change: evolve}\n    marts:")
    (tmp_path / "frazil.yml").write_text(evolving, encoding="utf-8")
    rebuilt = {step.table for step in api.plan(tmp_path).steps if isinstance(step, Normalize) and step.rebuild}
    assert rebuilt == {*waiting, "padded"}
    pipeline = frazil.load(tmp_path)
    frazil.run(pipeline, spark=spark_session(pipeline))
    for name, case in CASES.items():
        rows = query(pipeline, f"SELECT v::text FROM marts.{name} ORDER BY id").rows
        assert (name, [value for (value,) in rows]) == (name, [*case.rows, case.rows[0]])
    assert api.quarantine(tmp_path).rules == ()
    assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []
    assert [finding for finding in api.check_source(tmp_path) if not finding.ok] == []
