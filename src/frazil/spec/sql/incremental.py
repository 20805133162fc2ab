"""Incremental aggregates: the output columns that name the groups, so that single groups can be recomputed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from frazil.spec.sql.functions import calls, is_not_of_the_data, is_scalar
from frazil.spec.sql.names import quote
from frazil.spec.sql.sql import MART, mart_references

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Grouped:
    """A SELECT over one mart that can be computed group by group.

    Attributes:
        mart: the mart that it reads.
        groups: output columns without aggregates. Each row of the mart contributes to one combination of their values,
            so the output rows of a combination depend only on those rows of the mart.
    """

    mart: str
    groups: tuple[str, ...]


def grouped(sql: str) -> Grouped:
    """Return the groups of a SELECT without :func:`incremental_problems`."""
    tree = _parse(sql)
    return Grouped(mart=mart_references(sql)[0], groups=tuple(_groups(tree)))


@lru_cache(256)
def incremental_problems(sql: str) -> tuple[str, ...]:
    """Return why a SELECT cannot be computed group by group; empty if it can.

    Args:
        sql: a SELECT without :func:`frazil.spec.sql.sql.select_problems`.
    """
    from sqlglot import exp  # noqa: PLC0415 - only aggregates pay for it

    tree = _parse(sql)
    if not isinstance(tree, exp.Select):
        return ("it must be one SELECT, without UNION, INTERSECT or EXCEPT",)
    return tuple(dict.fromkeys(_problems(tree, sql)))


def _problems(tree: exp.Select, sql: str) -> Iterator[str]:
    from sqlglot import exp, tokenize  # noqa: PLC0415

    source = tree.args.get("from_") or tree.args.get("from")
    if len(mart_references(sql)) != 1 or len(MART.findall(sql)) != 1 or source is None:
        yield "it must read one mart, once"
    refused = {
        "with_": "WITH", "with": "WITH", "joins": "a join", "laterals": "LATERAL VIEW", "having": "HAVING",
        "limit": "LIMIT", "offset": "OFFSET", "sample": "TABLESAMPLE", "pivots": "PIVOT",
    }  # fmt: skip
    yield from (f"it has {words}" for part, words in refused.items() if tree.args.get(part))
    if any(column.db for column in tree.find_all(exp.Column)):
        yield "it names a column with its namespace: write table.column"
    inner = [one for one in tree.find_all(exp.Query) if one is not tree]
    if inner:
        yield "it has a subquery"
    if tree.find(exp.Window):
        yield "it has a window function"
    if tree.find(exp.Explode, exp.Unnest, exp.Pivot, exp.TableSample):
        yield "it makes several rows of one, or leaves rows out by chance"
    group = tree.args.get("group")
    if group is None or tree.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        yield "it must have a GROUP BY, without ROLLUP, CUBE and GROUPING SETS"
    elif not list(_groups(tree)):
        yield "none of its columns names a group: select one of those in GROUP BY"
    changing = {call.name for call in calls(tokenize(sql, read="spark")) if is_not_of_the_data(call.name)}
    changing |= {name for one in tree.find_all(exp.Func) if is_not_of_the_data(name := one.sql_name().lower())}
    yield from (f"function {name} gives another value each time" for name in sorted(changing))


def _groups(tree: exp.Query) -> Iterator[str]:
    """Yield the output columns that depend on grouping columns only.

    Aggregates, constants, and expressions over their names are left out. In ``sum(x) AS total, total / 100 AS euros``
    Spark resolves ``total`` to the alias if the mart has no such column. The columns of the mart are unknown here, so
    such a name always counts as the alias.
    """
    from sqlglot import exp  # noqa: PLC0415

    others: set[str] = set()
    for projection in tree.selects:
        names = [column.parts[0].name.lower() for column in projection.find_all(exp.Column)]
        is_named = isinstance(projection, exp.Alias | exp.Column)
        # Spark names an unnamed column by its text, such as `count(1)`, and other columns can use that name.
        uses_others = any(name in others or ("(" in name and "" in others) for name in names)
        if is_named and names and not uses_others and _is_of_one_record(projection):
            yield projection.alias_or_name
        else:
            others.add(projection.alias_or_name.lower() if is_named else "")


def _is_of_one_record(projection: exp.Expr) -> bool:
    """Return whether a value certainly depends on one record alone; False if it may be an aggregate."""
    from sqlglot import exp, tokenize  # noqa: PLC0415

    called = calls(tokenize(projection.sql("spark"), read="spark"))
    return projection.find(exp.AggFunc, exp.Star) is None and all(is_scalar(call.name) for call in called)


def _parse(sql: str) -> exp.Query:
    from sqlglot import parse_one  # noqa: PLC0415

    tree = parse_one(MART.sub(lambda found: quote(found[1]), sql), dialect="spark")
    return cast("exp.Query", tree)
