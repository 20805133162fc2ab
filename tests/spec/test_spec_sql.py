from __future__ import annotations

import pytest

from frazil.spec.sql.sql import expression_problems, fields_of, mart_references, select_problems


@pytest.mark.parametrize(
    "sql",
    [
        "select city, count(*) as n from {{ hosts }} group by city",
        "with h as (select * from {{hosts}}) select count(*) as n from h;",
        "select id from {{ a }} union all select id from {{ b }}",
        "(select 1 as one)",
        "select h.id, t.c from {{ hosts }} h lateral view explode(h.cs) t as c",
        "select * from range(10)",
        "-- a comment; with a semicolon\nselect 1 as one",
    ],
)
def test_one_select_over_marts_is_gold(sql: str) -> None:
    assert select_problems(sql) == ()


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("", "it is empty"),
        ("select 1; drop table x", "one statement"),
        ("drop table x", "one SELECT"),
        ("set spark.x = 1", "one SELECT"),
        ("with x as (select 1) insert into y select 1", "one SELECT"),
        ("select from where", "not SQL"),
        ("select 'open", "not SQL"),
        ("select * from hosts", "table 'hosts' is read by its name"),
        ("select * from lake.marts.hosts", "table 'lake.marts.hosts' is read by its name"),
        ("select * from csv.`/etc/passwd`", "is read by its name"),
        ("select {% raw %} 1", "other templates"),
        ("select reflect('java.lang.System', 'exit') from {{ x }}", "function reflect is not allowed"),
        ("select Java_Method('a', 'b') from {{ x }}", "function java_method is not allowed"),
        ("select system.builtin.try_reflect('a', 'b') from {{ x }}", "function try_reflect is not allowed"),
        ("select transform(a) using 'cat' from {{ x }}", "starts a program"),
    ],
)
def test_anything_else_is_not_gold(sql: str, problem: str) -> None:
    assert problem in " ".join(select_problems(sql))


def test_gold_reads_each_mart_once_in_order_of_first_use() -> None:
    sql = "select * from {{ b }} join {{a}} using (id) where x in (select x from {{ b }})"

    assert mart_references(sql) == ("b", "a")


@pytest.mark.parametrize(
    "expr",
    [
        "split(location, ',\\\\s*')[0]",
        "case when a = 'x' then 1 else 0 end",
        "transform(split(a, ','), x -> trim(x))",
        "cast(amount as decimal(12,2)) / 100",
        "`a column`",
    ],
)
def test_one_expression_over_a_record_is_a_column(expr: str) -> None:
    assert expression_problems(expr) == ()


@pytest.mark.parametrize(
    ("expr", "problem"),
    [
        ("", "it is empty"),
        ("trim(a", "not SQL"),
        ("a, b", "one expression"),
        ("a as b", "one expression"),
        ("a from b", "one expression"),
        ("*", "one expression"),
        ("a; drop table b", "one statement"),
        ("max(a)", "sees one record"),
        ("row_number() over (order by a)", "sees one record"),
        ("(select 1)", "sees one record"),
        ("explode(a)", "sees one record"),
        ("reflect('java.lang.System', 'exit')", "calls Java"),
        ("now()", "a replay would give another value"),
        ("concat(a, uuid())", "a replay would give another value"),
        ("date_diff(current_date, a)", "a replay would give another value"),
        ("(" * 5000 + "a" + ")" * 5000, "nested too deeply"),
    ],
)
def test_anything_else_is_not_a_column(expr: str, problem: str) -> None:
    assert problem in " ".join(expression_problems(expr))


def test_an_expression_tells_the_fields_it_reads() -> None:
    assert fields_of("transform(split(a, `b c`), x -> concat(x, a))") == ("a", "b c")
