"""No NULL by accident: what an expression gives, and where it fails, value by value."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.sql import functions as F

from frazil.spark.expressions import SqlError, attempt, reason, user_sql
from frazil.spec.sql.sql import expression_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

FAILS: Final = "!"

CASES: tuple[tuple[str, str | None, str | None], ...] = (
    ("cast(v as int)", "7", "7"),
    ("cast(v as int)", "abc", "!CAST_INVALID_INPUT"),
    ("cast(v as int)", "", "!CAST_INVALID_INPUT"),
    ("cast(v as int)", None, None),
    ("cast(v as int) + 1", "2147483647", "!ARITHMETIC_OVERFLOW"),
    ("cast(v as int) + 2", "2147483645", "2147483647"),
    ("cast(v as tinyint)", "300", "!CAST_INVALID_INPUT"),
    ("cast(v as decimal(4,2))", "123.45", "!NUMERIC_VALUE_OUT_OF_RANGE"),
    ("cast(v as boolean)", "maybe", "!CAST_INVALID_INPUT"),
    ("cast(v as date)", "2024-02-30", "!CAST_INVALID_INPUT"),
    ("v::int", "x", "!CAST_INVALID_INPUT"),
    ("v * 2", "1.5x", "!CAST_INVALID_INPUT"),
    ("-cast(v as bigint)", "-9223372036854775808", "!ARITHMETIC_OVERFLOW"),
    ("abs(cast(v as int))", "-2147483648", "!ARITHMETIC_OVERFLOW"),
    ("try_cast(v as int)", "abc", None),
    ("try_divide(cast(v as int), 0)", "1", None),
    ("try_to_timestamp(v)", "abc", None),
    ("to_timestamp(v)", "abc", "!CAST_INVALID_INPUT"),
    ("to_timestamp(v, 'yyyyMMdd')", "20240230", "!CANNOT_PARSE_TIMESTAMP"),
    ("to_date(v)", "abc", "!CAST_INVALID_INPUT"),
    ("make_date(2024, cast(v as int), 1)", "13", "!DATETIME_FIELD_OUT_OF_BOUNDS"),
    ("next_day(date'2024-01-01', v)", "noday", "!ILLEGAL_DAY_OF_WEEK"),
    ("to_number(v, '999')", "12x", "!INVALID_FORMAT"),
    ("unhex(v)", "zz", None),
    ("url_decode(v)", "%zz", "!CANNOT_DECODE_URL"),
    ("parse_json(v)", "{", "!MALFORMED_RECORD_IN_PARSING"),
    ("get_json_object(v, '$.a')", '{"a": 1}', "1"),
    ("1/0", "any", "!DIVIDE_BY_ZERO"),
    ("1 / cast(v as int)", "0", "!DIVIDE_BY_ZERO"),
    ("1 % cast(v as int)", "0", "!REMAINDER_BY_ZERO"),
    ("concat(v, cast(1/0 as string))", "a", "!DIVIDE_BY_ZERO"),
    ("split(v, ',')[0]", "a,b", "a"),
    ("split(v, ',')[1]", "a", "!INVALID_ARRAY_INDEX"),
    ("get(split(v, ','), 1)", "a", None),
    ("element_at(split(v, ','), 3)", "a", "!INVALID_ARRAY_INDEX_IN_ELEMENT_AT"),
    ("try_element_at(split(v, ','), 3)", "a", None),
    ("map('a', 1)[v]", "b", None),
    ("transform(split(v, ','), x -> cast(x as int))[0]", "1,x", "!CAST_INVALID_INPUT"),
    ("raise_error(v)", "my words", "!USER_RAISED_EXCEPTION"),
    ("if(v = '', raise_error('empty'), v)", "a", "a"),
    ("case when v = '1' then 1 else cast(v as int) end", "1", "1"),
    ("case when v = '1' then 1 else cast(v as int) end", "x", "!CAST_INVALID_INPUT"),
    ("case when v rlike '^[0-9]+$' then cast(v as int) end", "x", None),
    ("coalesce(v, string(cast('x' as int)))", "a", "a"),
    ("assert_true(v = 'a')", "b", "!USER_RAISED_EXCEPTION"),
    ("'DE'", None, "DE"),
    ("NULL", "a", None),
    ("named_struct('a', v).a", "a", "a"),
    ("regexp_extract(v, '([0-9]+)', 1)", "a12", "12"),
    ("regexp_replace(v, '(', '')", "a", "!INVALID_PARAMETER_VALUE"),
    (r"split(v, '\s+')[1]", "a  b", "b"),
    ("v || '${spark.sql.warehouse.dir}'", "a", "a${spark.sql.warehouse.dir}"),
)
"""Expression, the text of the field ``v``, and the value as text, or ``!`` and the class of Spark's message."""

BREAKS = [case for case in CASES if (case[2] or "").startswith(FAILS)]


@pytest.fixture(scope="module")
def strict(spark: SparkSession) -> SparkSession:
    """A session with the settings that a run has."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.variable.substitute", "false")
    return session


@pytest.fixture(scope="module", params=["generated code", "interpreted"])
def seen(strict: SparkSession, request: pytest.FixtureRequest) -> Iterator[list[str | None]]:
    """The result of every case, all in one job: its value as text, ``!`` if the expression fails."""
    generated = request.param == "generated code"
    strict.conf.set("spark.sql.codegen.wholeStage", f"{generated}".lower())
    strict.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY" if generated else "NO_CODEGEN")
    rows = strict.createDataFrame([(number, v) for number, (_, v, _) in enumerate(CASES)], "n int, v string")
    tried = [attempt(strict, sql, F.col("n") == number).alias(f"c{number}") for number, (sql, *_) in enumerate(CASES)]
    shown = [f"CASE WHEN c{n} IS NULL THEN '{FAILS}' ELSE c{n}.value END AS c{n}" for n in range(len(CASES))]
    table = rows.repartition(2).select("n", *tried).selectExpr("n", *shown).toArrow().to_pylist()
    yield [row[f"c{row['n']}"] for row in sorted(table, key=lambda row: row["n"])]
    strict.conf.unset("spark.sql.codegen.wholeStage")
    strict.conf.unset("spark.sql.codegen.factoryMode")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} of {case[1]}")
def test_an_expression_gives_its_value_or_fails_and_never_gives_null_for_a_failure(
    case: tuple[str, str | None, str | None], seen: list[str | None]
) -> None:
    sql, _, expected = case

    assert expression_problems(sql) == ()
    assert seen[CASES.index(case)] == (FAILS if case in BREAKS else expected)


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: f"{case[0]} of {case[1]}")
def test_a_failure_has_sparks_message_without_stack_and_advice(
    case: tuple[str, str | None, str], strict: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    sql, v, expected = case

    with caplog.at_level(logging.DEBUG):
        said = reason(strict, sql, {"v": v, 'a `field` of "no" use': None})

    assert said is not None
    assert said.startswith(f"[{expected[1:]}")
    assert "\n" not in said
    assert "SQLSTATE" not in said
    assert "spark.sql.ansi" not in said
    assert len(said) <= 302


def test_a_successful_expression_has_no_reason(strict: SparkSession) -> None:
    assert reason(strict, "cast(v as int)", {"v": "1"}) is None


def test_a_mistake_in_sql_is_one_of_the_declaration_and_leaves_no_line_of_json(
    strict: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SqlError, match=r"expr of x: \[DATATYPE_MISMATCH") as told, user_sql("expr of x", "1"):
        strict.sql("SELECT array_max('a')")

    assert told.value.exit_code == 2
    assert "\n" not in told.value.message
    assert capfd.readouterr().err == ""


def test_an_error_that_is_not_the_sql_s_stays_as_it_is(strict: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError), user_sql("expr of x", "1"):
        strict.sql(f"SELECT {1 // 0}")
