"""The columns that a gold SELECT reads, held against those of its marts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frazil.spec.load.problem import suggestion
from frazil.spec.sql.names import quote
from frazil.spec.sql.sql import MART

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NO_COLUMN: Final = re.compile(
    r"Column '(?P<column>[^']*)' could not be resolved(?: for table: '(?P<table>[^']*)')?"
    r"|Unknown column: (?P<unknown>\S+)"
)
_NO_TABLE: Final = re.compile(r"Unknown table: (\S+)")
_WORDS: Final = frozenset({"localtimestamp", "current_time", "user", "current_user", "session_user", "grouping__id"})
"""What Spark takes for something else where there is no column of the name."""


def select_problem(sql: str, marts: Mapping[str, Collection[str]]) -> tuple[str, str | None] | None:
    """Name a column of a gold SELECT that nothing it reads has.

    Args:
        sql: a SELECT in which :func:`frazil.spec.sql.sql.select_problems` finds nothing.
        marts: the marts it reads, with their columns.

    Returns:
        What is wrong and the way out, of the first such column; None if there is none, and where only Spark knows the
        columns of what is read: generators and pivots.
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
