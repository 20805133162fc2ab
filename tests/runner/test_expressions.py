"""No NULL by accident: a record on which an expression fails is in quarantine, and the others go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.failing import run_fails_with
from tests.shop import LONG

import frazil
from frazil.errors import DeclarationError, DeclarationProblems
from frazil.runner.steps import ingest
from frazil.spark import expressions
from frazil.spark.session import spark_session
from frazil.testing import draw

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.report import RunReport

DECLARATION = """
pipeline: tries
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: dms, path: ./landing, header: true}}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {{name: id, type: int, expr: "cast(id as int)"}}
      - {{name: ts, type: timestamp}}
      {columns}
    marts: [{{kind: current, name: now}}, {{kind: current, name: soft, deletes: soft}}, {{kind: history, name: past}}]
{gold}
"""
NUMBER = '- {name: number, type: int, expr: "cast(v as int)"}'


@dataclass(frozen=True)
class Tries:
    """A pipeline of one table with some columns."""

    folder: Path

    def declare(self, *columns: str, gold: str = "") -> frazil.Pipeline:
        """Write the declaration with these columns behind key and sequence."""
        text = DECLARATION.format(columns="\n      ".join(columns), gold=gold)
        (self.folder / "frazil.yml").write_text(text, encoding="utf-8")
        return frazil.load(self.folder)

    def land(self, name: str, *records: str, fields: str = "op,id,ts,v") -> None:
        """Put a file of records into the landing folder; a digit for ``ts`` is a second."""
        rows = [record.split(",") for record in records]
        lines = [",".join([op, key, f"2026-01-01 00:00:0{second}", *rest]) for op, key, second, *rest in rows]
        (self.folder / "landing" / name).write_text("\n".join([fields, *lines, ""]), encoding="utf-8")

    def run(self, pipeline: frazil.Pipeline, *, rebuild: bool = False) -> RunReport:
        """Run as a user does."""
        return frazil.run(pipeline, spark=spark_session(pipeline), rebuild=rebuild)

    def rows(self, pipeline: frazil.Pipeline, table: str, *columns: str) -> list[str]:
        """Draw the rows of a table, sorted."""
        found: list[dict[str, Any]] = spark_session(pipeline).table(f"lake.{table}").toArrow().to_pylist()
        return sorted(" ".join(line.split()) for line in draw(found, columns).splitlines())

    def quarantine(self, pipeline: frazil.Pipeline) -> list[str]:
        """Draw the quarantine."""
        return self.rows(pipeline, "silver.things_quarantine", "_cdc_row", "rule", "column", "reason")


@pytest.fixture
def tries(spark: SparkSession, tmp_path: Path) -> Tries:
    """A pipeline without files."""
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    return Tries(tmp_path)


@pytest.mark.parametrize("reader", ["driver", pytest.param("stream", marks=pytest.mark.laws)])
def test_a_failing_record_is_in_quarantine_with_spark_s_words_and_the_others_go_on(
    reader: str, tries: Tries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NOTHING-LOST, DELETES, CONVERGE: a small batch and a large one, then a rebuild, say the same."""
    monkeypatch.setattr(ingest, "reader", lambda *_, **__: reader)
    pipeline = tries.declare(NUMBER, """- {name: tag, expr: "'DE'"}""", "- {name: v}")
    tries.land("1.csv", "I,1,1,1", "I,2,1,abc", "I,3,1,NULL", "I,x,1,5", "I,4,1,4", "D,4,2,gone")

    tries.run(pipeline)

    words = 'The value \'{}\' of the type "STRING" cannot be cast to "INT" because it is malformed.'
    quarantine = tries.quarantine(pipeline)
    assert len(quarantine) == 2
    assert quarantine[0].startswith(
        "2 | expr | number | expr fails on v = 'abc': [CAST_INVALID_INPUT] " + words.format("abc")
    )
    assert quarantine[1].startswith("4 | expr | id | expr fails on id = 'x': [CAST_INVALID_INPUT] " + words.format("x"))
    assert tries.rows(pipeline, "marts.now", "id", "number", "tag") == ["1 | 1 | DE", "3 | - | DE"]
    assert tries.rows(pipeline, "marts.soft", "id", "number", "is_deleted") == [
        "1 | 1 | false",
        "3 | - | false",
        "4 | 4 | true",
    ]

    tries.run(pipeline, rebuild=True)

    assert tries.quarantine(pipeline) == quarantine
    assert tries.rows(pipeline, "marts.now", "id", "number", "tag") == ["1 | 1 | DE", "3 | - | DE"]


def test_an_expression_over_a_field_that_is_not_carried_keeps_what_was_and_never_fails(tries: Tries) -> None:
    """MISSING-IS-NOT-NULL: without its field a column is not known, whatever the expression says of nothing."""
    pipeline = tries.declare(
        """- {name: sure, nullable: false, expr: "coalesce(v, raise_error('none'))"}""", "- {name: w}"
    )
    tries.land("1.csv", "I,1,1,a,p", "I,2,1,NULL,p", fields="op,id,ts,v,w")
    tries.run(pipeline)
    tries.land("2.csv", "U,1,2,q", fields="op,id,ts,w")

    tries.run(pipeline)

    assert tries.rows(pipeline, "marts.now", "id", "sure", "w") == ["1 | a | q"]
    assert tries.rows(pipeline, "marts.past", "id", "sure", "w") == ["1 | a | p", "1 | a | q"]
    assert len(tries.quarantine(pipeline)) == 1


@pytest.mark.long
def test_reasons_are_looked_up_for_some_and_a_batch_without_failures_takes_no_job_for_them(
    tries: Tries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expressions, "MOST_REASONS", 2)
    jobs = {}
    for name, column in (("without", "- {name: v}"), ("with", NUMBER)):
        other = Tries(tries.folder / name)
        (other.folder / "landing").mkdir(parents=True)
        pipeline = other.declare(column)
        other.land("1.csv", "I,1,1,1")
        other.run(pipeline)
        other.land("2.csv", "I,2,2,2")
        jobs[name] = other.run(pipeline).tables[0].jobs

    other.land("3.csv", *(f"I,{number},3,{sign}" for number, sign in enumerate("abcc")))
    other.run(pipeline)

    assert jobs["with"] == jobs["without"]
    told = [line.partition("v = ")[2] for line in other.quarantine(pipeline)]
    assert [line[:3] for line in told] == ["'a'", "'b'", "'c'", "'c'"]
    assert ["CAST_INVALID_INPUT" in line for line in told] == [True, True, False, False]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("array_max(v)", r"expr of column 'bad' of table 'things': \[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE\]"),
        ("greatest(v)", r"expr of column 'bad' of table 'things': \[WRONG_NUM_ARGS"),
        ("v + array(1)", r"expr of column 'bad' of table 'things': \[DATATYPE_MISMATCH"),
        ("named_struct('a', v).b", r"expr of column 'bad' of table 'things': \[FIELD_NOT_FOUND\]"),
        ("vv", "reads 'vv', which is not a field"),
        ("user", "reads 'user', which is not a field"),
    ],
)
def test_sql_that_spark_refuses_fails_before_any_write(
    column: str, said: str, tries: Tries, capfd: pytest.CaptureFixture[str]
) -> None:
    pipeline = tries.declare(f'- {{name: bad, expr: "{column}"}}')
    tries.land("1.csv", "I,1,1,1")

    with run_fails_with(DeclarationError, match=said) as refused:
        tries.run(pipeline)

    assert refused.value.exit_code == 2
    assert '"level"' not in capfd.readouterr().err
    assert not spark_session(pipeline).catalog.tableExists("lake.bronze.things")


def test_a_constant_that_fails_sends_every_upsert_to_quarantine(tries: Tries) -> None:
    pipeline = tries.declare('- {name: bad, type: int, expr: "1/0"}')
    tries.land("1.csv", "I,1,1,1", "D,1,2,1")

    tries.run(pipeline)

    [reason] = tries.quarantine(pipeline)
    assert reason.startswith("1 | expr | bad | expr fails: [DIVIDE_BY_ZERO] Division by zero.")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "select nmber from {{ now }}",
            "sql of gold 'sums': 'nmber' is no column of what it reads; did you mean 'number'",
        ),
        LONG("select array_max(id) as x from {{ now }}", r"sql of gold 'sums': \[DATATYPE_MISMATCH"),
        ("select 1 / (id - id) as x from {{ now }}", r"sql of gold 'sums': \[DIVIDE_BY_ZERO\]"),
        LONG(
            "select coalesce(raise_error('no'), 1) as x from {{ now }}",
            r"sql of gold 'sums': \[USER_RAISED_EXCEPTION\] no",
        ),
        ("select null as x from {{ now }}", "sql of gold 'sums': column 'x' is of type void"),
        LONG("select id, id from {{ now }}", "sql of gold 'sums': it has two columns 'id'"),
    ],
)
def test_a_mistake_in_an_aggregate_names_it(sql: str, said: str, tries: Tries) -> None:
    pipeline = tries.declare(NUMBER, gold=f'gold: [{{name: sums, sql: "{sql}"}}]')
    tries.land("1.csv", "I,1,1,1")

    with run_fails_with(DeclarationError, match=said) as refused:
        tries.run(pipeline)

    assert refused.value.exit_code == 2
    # The aggregate alone fails.
    assert spark_session(pipeline).catalog.tableExists("lake.marts.now")
    assert not spark_session(pipeline).catalog.tableExists("lake.gold.sums") or "[" in said


@pytest.mark.laws
def test_an_expression_that_a_later_file_makes_possible_is_looked_at_again(tries: Tries) -> None:
    pipeline = tries.declare("- {name: v}")
    tries.land("1.csv", "I,1,1,1")
    tries.run(pipeline)
    pipeline = tries.declare("- {name: v}", '- {name: late, expr: "upper(w)"}')

    with run_fails_with(DeclarationProblems, match="reads 'w', which is not a field"):
        tries.run(pipeline)
    tries.land("2.csv", "U,1,2,1,w", fields="op,id,ts,v,w")
    tries.run(pipeline)

    assert tries.rows(pipeline, "marts.now", "id", "late") == ["1 | W"]
