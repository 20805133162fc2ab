"""Functions are known by Spark's own list, before any Spark starts."""

from __future__ import annotations

import pytest

from frazil.spec.sql.functions import functions
from frazil.spec.sql.sql import expression_problems


@pytest.mark.parametrize(
    ("expr", "problem"),
    [
        ("nosuchfn(v)", "unknown function nosuchfn"),
        ("substrng(v, 1)", "unknown function substrng; did you mean 'substring'?"),
        ("upper(lowr(v))", "unknown function lowr; did you mean 'lower'?"),
        ("db.fn(v)", "unknown function db.fn"),
        ("identifier('v')", "unknown function identifier"),
        ("luhn_check(v, 1)", "function luhn_check takes 1 argument, not 2"),
        ("make_timestamp(v, w, v, w)", "takes 1, 2, 3, 6 or 7 arguments, not 4"),
        ("luhn_check()", "function luhn_check takes 1 argument, not 0"),
        ("v.x", "'v.x' reads a part of 'v', but a source field is text"),
        ("v[0]", "'v[0]' reads a part of 'v', but a source field is text"),
        ("first(v)", "function first is not of one record"),
        ("any(v)", "function any is not of one record"),
        ("stack(2, v, v)", "function stack is not of one record"),
        ("window(cast(v as timestamp), '1 day').start", "function window is not of one record"),
        ("range(3)", "function range is not of one record"),
        ("lag(v)", "function lag is not of one record"),
        ("to_json(struct(*))", "it sees one record"),
        ("rand()", "function rand is not allowed: a replay would give another value"),
        ("shuffle(split(v, ','))", "function shuffle is not allowed"),
        ("version()", "function version is not allowed"),
        ("current_user", "function current_user is not allowed"),
        ("current_catalog()", "function current_catalog is not allowed"),
        ("current_time()", "function current_time is not allowed"),
        ("unix_timestamp()", "function unix_timestamp is not allowed"),
        ("monotonically_increasing_id()", "function monotonically_increasing_id is not allowed"),
        ("input_file_name()", "function input_file_name is not allowed"),
        ("date 'today'", "the time 'today' is not allowed"),
        ("to_date('NOW')", "the time 'now' is not allowed"),
        ("aes_encrypt(v, 'k')", "aes_encrypt without mode 'ECB' or an iv is not allowed"),
        ("_cdc_file", "'_cdc_file', which is bookkeeping"),
    ],
)
def test_what_is_not_a_function_of_the_record_is_refused(expr: str, problem: str) -> None:
    """CONVERGE: rows are a function of the changes; and no typing mistake gets as far as Spark."""
    assert problem in " ".join(expression_problems(expr))


@pytest.mark.parametrize(
    "expr",
    [
        "unix_timestamp(v)",
        "case when v = 'now' then 'a' end",
        "v like any ('a', 'b') and not (v in ('c'))",
        "trim(both 'x' from v)",
        "extract(year from cast(v as date))",
        "timestampdiff(YEAR, cast(v as date), cast(w as date))",
        "dateadd(day, 1, cast(v as date))",
        "substring(v from 2 for 3)",
        "overlay(v placing 'x' from 1)",
        "position('a' in v)",
        "cast(v as array<decimal(10, 2)>)",
        "system.builtin.abs(v)",
        "`abs`(v)",
        "aggregate(split(v, ','), 0, (acc, x) -> acc + 1)",
        "exists(split(v, ','), x -> x > '1')",
        "transform(from_json(v, 'array<struct<a: int>>'), s -> s.a)",
        "from_json(v, 'a int').a",
        "split(v, ',')[0]",
        "aes_encrypt(v, 'k', 'ECB')",
        "'it''s (not) a call('",
        "v -- a comment (with a parenthesis)",
    ],
)
def test_what_is_one_is_not(expr: str) -> None:
    assert expression_problems(expr) == ()


def test_the_list_has_all_kinds() -> None:
    kinds = {function.kind for function in functions().values()}

    assert kinds == {"scalar", "aggregate", "window", "generator", "table", "changing"}
