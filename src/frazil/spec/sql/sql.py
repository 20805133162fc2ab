"""Checks of users' SQL: a SELECT over marts for gold, and expressions over one record for columns.

SQLGlot parses it and is imported on the first call, so that a declaration without SQL starts without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Final, cast

from frazil.spec.contract import OWN_PREFIX
from frazil.spec.load.problem import suggestion
from frazil.spec.sql.functions import call_problem, calls, calls_java, is_not_of_the_data, is_scalar, unknown_function
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from sqlglot import exp

    from frazil.spec.model.column import References
    from frazil.spec.model.mart import Gold, Mart
    from frazil.spec.model.pipeline import Pipeline, Table
    from frazil.spec.sql.functions import Call


MART: Final = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
"""A mart in gold's SQL: ``{{ name }}``."""

_MARKER: Final = "_frazil_mart_"
_TIMES: Final = frozenset({"now", "today", "tomorrow", "yesterday"})
"""Texts that Spark casts to a date or timestamp of the run itself."""

_RANDOM: Final = (2, 3, 4)
"""Numbers of arguments of ``aes_encrypt`` without an initial vector."""

_KEPT: Final = 4096
"""Size of the caches: every run of a long-lived process checks the declaration."""

_PAIRS: Final = (("L_PAREN", "R_PAREN"), ("L_BRACKET", "R_BRACKET"))
_STARTS: Final = frozenset({"SELECT", "WITH", "L_PAREN"})


def mart_references(sql: str) -> tuple[str, ...]:
    """Return the marts and aggregates that a gold SELECT reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(MART.findall(sql)))


@lru_cache(_KEPT)
def select_problems(sql: str) -> tuple[str, ...]:
    """Return why a text cannot be the SELECT of an aggregate; empty if it can. Names of marts are not checked."""
    bare = MART.sub(lambda found: _MARKER + re.sub(r"\W", "_", found[1]), sql)
    if "{{" in bare or "{%" in bare:
        return ("a mart is written {{ name }}; other templates are not known",)
    if problem := _not_one_statement(bare, _STARTS):
        return (problem,)
    tree = _parsed(bare)
    if isinstance(tree, str):
        return (tree,)
    from sqlglot import exp  # noqa: PLC0415

    if not isinstance(tree, exp.Query):
        return ("it must be one SELECT",)
    local = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    called = list(tree.find_all(exp.Func))
    names = {(call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower() for call in called}
    problems = [f"function {name} is not allowed: it calls Java" for name in sorted(filter(calls_java, names))]
    problems += filter(None, [unknown_function(call.name.lower()) for call in called if _is_foreign(call)])
    if tree.find(exp.QueryTransform):
        problems.append("SELECT TRANSFORM is not allowed: it starts a program")
    for table in tree.find_all(exp.Table):
        named = isinstance(table.this, exp.Identifier) and not table.name.startswith(_MARKER)
        if named and (table.db or table.name.lower() not in local):
            problems.append(f"table '{table.sql('spark')}' is read by its name; a mart is written {{{{ name }}}}")
    return tuple(problems)


@lru_cache(_KEPT)
def expression_problems(expr: str) -> tuple[str, ...]:
    """Return why a text cannot be an ``expr`` over the fields of one record; empty if it can."""
    if problem := _not_one_statement(expr, None):
        return (problem,)
    tree = _parsed(f"SELECT {expr}")
    if isinstance(tree, str):
        return (tree,)
    from sqlglot import exp  # noqa: PLC0415

    alone = isinstance(tree, exp.Select) and not any(value for key, value in tree.args.items() if key != "expressions")
    if not alone or len(tree.expressions) != 1 or isinstance(tree.expressions[0], exp.Alias | exp.Star):
        return ("it must be one expression, without a comma, an alias or a FROM around it",)
    return tuple(dict.fromkeys(_row_problems(tree.expressions[0], expr)))


def _row_problems(tree: exp.Expr, text: str) -> Iterator[str]:
    """Yield parts of an expression that need more than one record, or that a record does not have."""
    from sqlglot import exp, tokenize  # noqa: PLC0415

    called = tuple(calls(tokenize(text, read="spark")))
    if tree.find(exp.Window, exp.Query, exp.Star):
        yield "it sees one record: no windows, no subqueries, no *"
    yield from filter(None, map(call_problem, called))
    yield from (f"{what} is not allowed: a replay would give another value" for what in _moments(tree, called))
    yield from _parts(tree)


def _moments(tree: exp.Expr, called: Collection[Call]) -> Iterator[str]:
    """Yield values that depend on the time of the run, or on chance, without a function call that says so."""
    from sqlglot import exp  # noqa: PLC0415

    if not any(is_not_of_the_data(call.name) for call in called):
        bare = (call.sql_name().lower() for call in tree.find_all(exp.Func))
        yield from (f"function {name}" for name in bare if is_not_of_the_data(name))
    texts = [said.name.strip().lower() for said in tree.find_all(exp.Literal) if said.is_string]
    if tree.find(exp.Cast) or any("date" in call.name or "time" in call.name for call in called):
        yield from (f"the time '{text}'" for text in texts if text.partition(" ")[0] in _TIMES)
    # Without an initial vector, in a mode that needs one, the result is random.
    if any(call.name == "aes_encrypt" and call.count in _RANDOM for call in called) and "ecb" not in texts:
        yield "function aes_encrypt without mode 'ECB' or an iv"


def _parts(tree: exp.Expr) -> Iterator[str]:
    """Yield reads of parts of a field, which is text, and reads of bookkeeping columns."""
    from sqlglot import exp  # noqa: PLC0415

    for column in tree.find_all(exp.Column):
        if column.table:
            yield f"'{column.sql('spark')}' reads a part of '{column.parts[0].name}', but a source field is text"
        elif column.name.lower().startswith(OWN_PREFIX):
            yield f"it reads '{column.name}', which is bookkeeping and not a field of the source"
    for part in tree.find_all(exp.Bracket):
        if isinstance(part.this, exp.Column) and not part.this.table:
            yield f"'{part.sql('spark')}' reads a part of '{part.this.name}', but a source field is text"


@lru_cache(_KEPT)
def fields_of(expr: str) -> tuple[str, ...]:
    """Return the source fields that an ``expr`` reads; empty if it cannot be parsed."""
    tree = _parsed(f"SELECT {expr}")
    if isinstance(tree, str):
        return ()
    from sqlglot import exp  # noqa: PLC0415

    return tuple(dict.fromkeys(column.name for column in tree.find_all(exp.Column) if not column.table))


def _not_one_statement(sql: str, starts: frozenset[str] | None) -> str | None:
    # Checked before parsing: the parser only warns about unknown statements and passes them on as commands.
    from sqlglot import TokenType, errors, tokenize  # noqa: PLC0415

    try:
        kinds = [token.token_type for token in tokenize(sql, read="spark")]
    except errors.SqlglotError as error:
        return f"not SQL: {_first_line(error)}"
    while kinds and kinds[-1] is TokenType.SEMICOLON and starts is not None:
        kinds.pop()
    if not kinds:
        return "it is empty"
    if TokenType.SEMICOLON in kinds:
        return "it must be one statement, without ';'"
    for opening, closing in _PAIRS:
        # The parser accepts some of these, Spark does not.
        if kinds.count(TokenType[opening]) != kinds.count(TokenType[closing]):
            return "not SQL: a parenthesis or bracket has no partner"
    return "it must be one SELECT" if starts is not None and kinds[0].name not in starts else None


def _parsed(sql: str) -> exp.Expr | str:
    """Parse one statement of Spark SQL; a returned text is the problem."""
    from sqlglot import errors, parse_one  # noqa: PLC0415

    try:
        return parse_one(sql, dialect="spark")
    except errors.SqlglotError as error:
        return f"not SQL: {_first_line(error)}"
    except RecursionError:
        return "nested too deeply"


def _is_foreign(call: exp.Func) -> bool:
    """Return whether the parser does not know a function, so that Spark's list must be checked."""
    from sqlglot import exp  # noqa: PLC0415

    return isinstance(call, exp.Anonymous) and not isinstance(call.parent, exp.Table | exp.Dot)


def _first_line(error: Exception) -> str:
    facts = (getattr(error, "errors", None) or [{}])[0]
    text = (facts.get("description") or str(error).splitlines()[0]).split(" but got <Token")[0]
    return f"{text.rstrip('.')} (at {facts['highlight']!r})" if facts.get("highlight") else text.rstrip(".")


_NO_COLUMN: Final = re.compile(
    r"Column '(?P<column>[^']*)' could not be resolved(?: for table: '(?P<table>[^']*)')?"
    r"|Unknown column: (?P<unknown>\S+)"
)
_NO_TABLE: Final = re.compile(r"Unknown table: (\S+)")
_WORDS: Final = frozenset({"localtimestamp", "current_time", "user", "current_user", "session_user", "grouping__id"})
"""Names that Spark resolves to functions if no such column exists."""


def select_problem(sql: str, marts: Mapping[str, Collection[str]]) -> tuple[str, str | None] | None:
    """Return the first column of a gold SELECT that its marts do not have.

    Args:
        sql: a SELECT without :func:`select_problems`.
        marts: the marts that it reads -> their columns.

    Returns:
        The message and the hint; None if all columns exist, and for generators and pivots, whose columns only Spark
        knows.
    """
    from sqlglot import errors, exp, parse_one  # noqa: PLC0415 - only aggregates pay for it
    from sqlglot.optimizer.qualify import qualify  # noqa: PLC0415

    tree = parse_one(MART.sub(lambda found: quote("marts", found[1]), sql), dialect="spark")
    if tree.find(exp.Lateral, exp.Pivot):
        return None
    schema: dict[str, object] = {"marts": {name: dict.fromkeys(columns, "STRING") for name, columns in marts.items()}}
    try:
        qualify(tree, schema=schema, dialect="spark", quote_identifiers=False)
    except errors.OptimizeError as error:
        if (found := _NO_COLUMN.match(str(error))) and (
            name := found["column"] or found["unknown"]
        ).lower() not in _WORDS:
            columns = [column for listed in marts.values() for column in listed if not column.startswith("_cdc_")]
            if found["table"]:
                return f"'{found['table']}.{name}' is no column of what it reads", None
            if name.lower() in map(str.lower, columns):
                return (
                    f"'{name}' is a column of more than one table, or of none that is read here",
                    "write table.column",
                )
            return f"'{name}' is no column of what it reads", suggestion(name, dict.fromkeys(columns))
        if found := _NO_TABLE.match(str(error)):
            return f"'{found[1]}' is the name of nothing that it reads", None
    except (errors.SqlglotError, RecursionError):
        pass  # what it cannot follow, Spark tells
    return None


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


def mart_named(pipeline: Pipeline, name: str) -> tuple[Table, Mart] | None:
    """Return the mart of this name and its source table; None if it does not exist."""
    pairs = ((table, mart) for table in pipeline.tables for mart in table.marts)
    return next(((table, mart) for table, mart in pairs if table.mart_name(mart) == name), None)


def referenced_fields(reference: References, other: Table) -> tuple[str, ...]:
    """Return the columns that a rule refers to in the other table: the named ones, else the keys."""
    return reference.fields or other.keys


def referenced_tables(pipeline: Pipeline, table: Table) -> tuple[str, ...]:
    """Return the other source tables that a table's rules refer to, without repeats."""
    found = (mart_named(pipeline, rule.references.to) for rule in table.rules if rule.references is not None)
    return tuple(dict.fromkeys(pair[0].name for pair in found if pair is not None and pair[0].name != table.name))


def referenced_first(pipeline: Pipeline, names: Iterable[str]) -> tuple[str, ...]:
    """Return the source tables, each after the tables that its rules refer to.

    Otherwise, and for circular references, the given order is kept.
    """
    tables, wanted = {table.name: table for table in pipeline.tables}, tuple(names)
    ordered: dict[str, None] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        for other in referenced_tables(pipeline, tables[name]):
            if other in wanted and other not in above:
                add(other, (*above, name))
        ordered.setdefault(name)

    for name in wanted:
        add(name, ())
    return tuple(ordered)


def gold_in_order(pipeline: Pipeline) -> tuple[Gold, ...]:
    """Return the aggregates, each after those that it reads, otherwise in the order of the declaration.

    With a circle, which :func:`frazil.spec.check.check.problems` reports, the declared order is kept.
    """
    known = {gold.name: gold for gold in pipeline.gold}
    if circle(pipeline):
        return pipeline.gold
    return tuple(known[name] for name in TopologicalSorter(_direct(pipeline)).static_order())


def circle(pipeline: Pipeline) -> tuple[str, ...]:
    """Return aggregates that read each other in a circle, with the first repeated at the end; empty without one."""
    try:
        TopologicalSorter(_direct(pipeline)).prepare()
    except CycleError as error:
        return tuple(reversed(error.args[1]))
    return ()


def upstream_gold(pipeline: Pipeline, gold: Gold) -> tuple[str, ...]:
    """Return the aggregates that one reads, directly or through others, in the order of the declaration."""
    direct = _direct(pipeline)
    found: set[str] = set()
    ahead = [gold.name]
    while ahead:
        new = {*direct[ahead.pop()]} - found
        found |= new
        ahead += new
    return tuple(one.name for one in pipeline.gold if one.name in found)


def marts_of(pipeline: Pipeline, gold: Gold) -> tuple[str, ...]:
    """Return the marts that an aggregate reads, directly or through others, in order of appearance."""
    names = {gold.name, *upstream_gold(pipeline, gold)}
    known = {one.name for one in pipeline.gold}
    read = (name for one in pipeline.gold if one.name in names for name in mart_references(one.sql))
    return tuple(dict.fromkeys(name for name in read if name not in known))


def _direct(pipeline: Pipeline) -> Mapping[str, tuple[str, ...]]:
    known = {gold.name for gold in pipeline.gold}
    return {gold.name: tuple(name for name in mart_references(gold.sql) if name in known) for gold in pipeline.gold}
