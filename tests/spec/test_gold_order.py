"""What an aggregate reads, itself and through others, and which of its rows can be computed alone."""

from __future__ import annotations

import pytest

from frazil.spec import DmsFiles, Gold, Lake, Pipeline, Table
from frazil.spec.sql.sql import circle, gold_in_order, grouped, incremental_problems, marts_of, upstream_gold

ORDERS = Table(name="orders", source=DmsFiles(path=("orders",)), keys=("id",))
ITEMS = Table(name="items", source=DmsFiles(path=("items",)), keys=("id",))


def reading(**reads: str) -> Pipeline:
    """Make a pipeline of aggregates, each with what it reads."""
    gold = tuple(
        Gold(name=name, sql=f"select 1 as one from {', '.join(f'{{{{ {one} }}}}' for one in read.split())}")
        for name, read in reads.items()
    )
    return Pipeline(pipeline="shop", lake=Lake(warehouse="lake"), tables=(ORDERS, ITEMS), gold=gold)


def test_aggregates_come_after_those_they_read_and_know_all_their_marts() -> None:
    pipeline = reading(top="middle items", middle="bottom", bottom="orders")
    top = pipeline.gold[0]

    assert [gold.name for gold in gold_in_order(pipeline)] == ["bottom", "middle", "top"]
    assert upstream_gold(pipeline, top) == ("middle", "bottom")
    assert marts_of(pipeline, top) == ("items", "orders")
    assert circle(pipeline) == ()


def test_a_circle_is_named_from_one_to_the_same() -> None:
    pipeline = reading(a="b orders", b="c", c="a", d="a")

    found = circle(pipeline)

    assert found[0] == found[-1]
    assert {*found} == {"a", "b", "c"}
    assert gold_in_order(pipeline) == pipeline.gold
    assert marts_of(pipeline, pipeline.gold[0]) == ("orders",)


@pytest.mark.parametrize(
    ("select", "groups"),
    [
        ("h, count(*) as n from {{ o }} group by h", "h"),
        ("date_trunc('day', t) as day, status, sum(x) s from {{ o }} where x > 0 group by 1, 2", "day status"),
        ("case when x > 5 then 'big' else 'small' end as size, count(*) n from {{ o }} group by 1", "size"),
        ("cast(t as date) as day, sum(x) / count(*) as mean from {{ o }} group by all order by 1", "day"),
        ("year(t), t, 'a' as constant, my_own(t) as other, count(*) n from {{ o }} group by 1, 2", "t"),
        ("a, bit_xor(b) c, every(b) d, mode(b) e, percentile(b, 0.1) f, listagg(b) g from {{ o }} group by a", "a"),
        ("a, sum(b) as total, total / 100 as euros, euros > 3 as Many from {{ o }} group by a", "a"),
        ("a, count(*) as N, n > 3 as many, a + 1 as next from {{ o }} group by a", "a next"),
        ("a, named_struct('n', count(*)) as s, s.n as n, `s`.n + 1 as m from {{ o }} group by a", "a"),
        ("a, count(*), `count(1)` > 3 as many, sum(b), `sum(b)` as c from {{ o }} group by a", "a"),
        ("a, my_own(b) as c, c as d from {{ o }} group by a, my_own(b)", "a"),
        ("a as total, total + 1 as next, sum(b) as c, a + 2 as last from {{ o }} group by a", "total next last"),
        ("b as `f(x)`, `f(x)` as c, sum(d) as e from {{ o }} group by b", "f(x) c"),
    ],
)
def test_groups_are_the_named_columns_of_scalars(select: str, groups: str) -> None:
    """A function that may be an aggregate names no group: its value would change with the rows of the group.

    Nor does what uses such a value by its name, as Spark allows.
    """
    sql = f"select {select}"

    assert incremental_problems(sql) == ()
    assert grouped(sql).groups == tuple(groups.split())
    assert grouped(sql).mart == "o"


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("select count(*) n from {{ o }}", "it must have a GROUP BY, without ROLLUP, CUBE and GROUPING SETS"),
        ("select a, count(*) n from {{ o }} group by rollup(a)", "it must have a GROUP BY, without ROLLUP"),
        ("select a, count(*) n from {{ o }} group by a with cube", "it must have a GROUP BY, without ROLLUP"),
        ("select a, count(*) n from {{ o }} group by grouping sets ((a), ())", "it must have a GROUP BY, without"),
        ("select count(*) n from {{ o }} group by a", "none of its columns names a group"),
        ("select window(t, '1 day') w, count(*) n from {{ o }} group by 1", "none of its columns names a group"),
        ("select a, count(*) n from {{ o }} join {{ p }} using (b) group by a", "it must read one mart, once"),
        ("select a, count(*) n from {{ o }}, {{ o }} group by a", "it must read one mart, once"),
        ("select a, count(*) n from {{ o }} group by a having count(*) > 1", "it has HAVING"),
        ("select a, count(*) n from {{ o }} group by a limit 3", "it has LIMIT"),
        ("with q as (select 1) select a, count(*) n from {{ o }} group by a", "it has WITH"),
        ("select a, count(*) n from {{ o }} where b in (select 1) group by a", "it has a subquery"),
        ("select a, sum(count(*)) over () n from {{ o }} group by a", "it has a window function"),
        ("select a, explode(b) n from {{ o }} group by a, b", "it makes several rows of one"),
        ("select a, count(*) n from {{ o }} lateral view explode(b) as c group by a", "it has LATERAL VIEW"),
        ("select a, max(current_date) n from {{ o }} group by a", "function current_date gives another value each"),
        ("select a, max(rand()) n from {{ o }} group by a", "function rand gives another value each time"),
        ("select marts.o.a, count(*) n from {{ o }} group by 1", "it names a column with its namespace"),
        ("select a, 1 n from {{ o }} union all select a, 2 from {{ o }}", "it must be one SELECT, without UNION"),
    ],
)
def test_aggregates_without_groups_are_refused(sql: str, problem: str) -> None:
    assert any(text.startswith(problem) for text in incremental_problems(sql)), incremental_problems(sql)
