"""What a user's SQL may be: one SELECT over marts for gold, one expression over a record for a column.

Parsed with SQLGlot, which is imported on the first call: a declaration without SQL starts without it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlglot import exp

MART: Final = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
"""A mart in gold's SQL: ``{{ name }}``."""

_MARKER: Final = "_frazil_mart_"
_CALLS_JAVA: Final = frozenset({"reflect", "java_method", "try_reflect"})
_NOT_OF_THE_DATA: Final = frozenset(
    {"current_date", "current_timestamp", "curdate", "localtimestamp", "now", "rand", "random", "randn"}
    | {"randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id"}
    | {"input_file_name", "current_user", "user", "session_user"}
)
"""Functions whose value is not decided by their arguments."""

_PAIRS: Final = (("L_PAREN", "R_PAREN"), ("L_BRACKET", "R_BRACKET"))
_STARTS: Final = frozenset({"SELECT", "WITH", "L_PAREN"})


def mart_references(sql: str) -> tuple[str, ...]:
    """Name the marts that a gold SELECT reads, each once, in order of first appearance."""
    return tuple(dict.fromkeys(MART.findall(sql)))


def select_problems(sql: str) -> list[str]:
    """Say what keeps a text from being the SELECT of a gold table; its marts are not looked up here."""
    bare = MART.sub(lambda found: _MARKER + re.sub(r"\W", "_", found[1]), sql)
    if "{{" in bare or "{%" in bare:
        return ["a mart is written {{ name }}; other templates are not known"]
    if problem := _not_one_statement(bare, _STARTS):
        return [problem]
    tree = _parsed(bare)
    if isinstance(tree, str):
        return [tree]
    from sqlglot import exp  # noqa: PLC0415

    if not isinstance(tree, exp.Query):
        return ["it must be one SELECT"]
    local = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    problems = [f"function {name} is not allowed: it calls Java" for name in sorted(_functions(tree) & _CALLS_JAVA)]
    if tree.find(exp.QueryTransform):
        problems.append("SELECT TRANSFORM is not allowed: it starts a program")
    for table in tree.find_all(exp.Table):
        named = isinstance(table.this, exp.Identifier) and not table.name.startswith(_MARKER)
        if named and (table.db or table.name.lower() not in local):
            problems.append(f"table '{table.sql('spark')}' is read by its name; a mart is written {{{{ name }}}}")
    return problems


def expression_problems(expr: str) -> list[str]:
    """Say what keeps a text from being a column's ``expr``: one expression over the fields of one record."""
    if problem := _not_one_statement(expr, None):
        return [problem]
    tree = _parsed(f"SELECT {expr}")
    if isinstance(tree, str):
        return [tree]
    from sqlglot import exp  # noqa: PLC0415

    alone = isinstance(tree, exp.Select) and not any(value for key, value in tree.args.items() if key != "expressions")
    if not alone or len(tree.expressions) != 1 or isinstance(tree.expressions[0], exp.Alias | exp.Star):
        return ["it must be one expression, without a comma, an alias or a FROM around it"]
    expression = tree.expressions[0]
    if expression.find(exp.AggFunc, exp.Window, exp.Query, exp.UDTF) or isinstance(expression, exp.Explode):
        return ["it sees one record: no aggregates, windows, subqueries or explode"]
    used = _functions(expression)
    return [f"function {name} is not allowed: it calls Java" for name in sorted(used & _CALLS_JAVA)] + [
        f"function {name} is not allowed: a replay would give another value" for name in sorted(used & _NOT_OF_THE_DATA)
    ]


def fields_of(expr: str) -> tuple[str, ...]:
    """Name the source fields that a column's ``expr`` reads; none if it does not parse."""
    tree = _parsed(f"SELECT {expr}")
    if isinstance(tree, str):
        return ()
    from sqlglot import exp  # noqa: PLC0415

    return tuple(dict.fromkeys(column.name for column in tree.find_all(exp.Column) if not column.table))


def _not_one_statement(sql: str, starts: frozenset[str] | None) -> str | None:
    # Looked at before parsing: what the parser does not know it only warns about, and passes on as a command.
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
        # The parser forgives some of these, Spark none.
        if kinds.count(TokenType[opening]) != kinds.count(TokenType[closing]):
            return "not SQL: a parenthesis or bracket has no partner"
    return "it must be one SELECT" if starts is not None and kinds[0].name not in starts else None


def _parsed(sql: str) -> exp.Expr | str:
    """Parse one statement of Spark SQL; a text is what is wrong with it."""
    from sqlglot import errors, parse_one  # noqa: PLC0415

    try:
        return parse_one(sql, dialect="spark")
    except errors.SqlglotError as error:
        return f"not SQL: {_first_line(error)}"
    except RecursionError:
        return "nested too deeply"


def _functions(tree: exp.Expr) -> set[str]:
    from sqlglot import exp  # noqa: PLC0415

    calls = tree.find_all(exp.Func)
    return {(call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower() for call in calls}


def _first_line(error: Exception) -> str:
    facts = (getattr(error, "errors", None) or [{}])[0]
    text = (facts.get("description") or str(error).splitlines()[0]).split(" but got <Token")[0]
    return f"{text.rstrip('.')} (at {facts['highlight']!r})" if facts.get("highlight") else text.rstrip(".")
