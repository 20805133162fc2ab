"""The rules over a contract's rules: values that their columns can have, names, expressions."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from frazil.spec.check.table_rules import table_rule_problems
from frazil.spec.contract import REST, declared, is_closed, repeated
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.rule import COLUMN_RULES
from frazil.spec.model.types import TIMES
from frazil.spec.sql.sql import expression_problems, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.column import Column
    from frazil.spec.model.pipeline import Table

_NAME: Final = re.compile(r"[a-z0-9_]{1,128}")
_OWN: Final = frozenset(
    {
        "record",
        "op",
        "expr",
        "cast",
        "null_key",
        "null_sequence",
        "new_column",
        "missing_column",
        "before_horizon",
        *COLUMN_RULES,
    }
)
"""Rules that have their names from Frazil."""

_BITS: Final = {"int": 31, "bigint": 63}
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def rule_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what is wrong with the rules of a table and of its columns; ``at`` is the table's path."""
    for index, column in enumerate(table.columns or ()):
        whose = f"column '{column.name}' of table '{table.name}'"
        yield from _column(column, (*at, "columns", index), whose)
    names = [rule.name for rule in table.rules]
    for name in repeated(names):
        yield Problem((*at, "rules"), f"rule '{name}' of table '{table.name}' is declared {names.count(name)} times")
    columns = declared(table)
    for index, rule in enumerate(table.rules):
        yield from table_rule_problems(table, rule, (*at, "rules", index))
        here, whose = (*at, "rules", index), f"rule '{rule.name}' of table '{table.name}'"
        if not _NAME.fullmatch(rule.name) or rule.name in _OWN:
            why = "is one of Frazil's own" if rule.name in _OWN else "is not 1 to 128 of a-z, 0-9 and _"
            yield Problem((*here, "name"), f"{whose}: the name {why}")
        if rule.expr is None:
            continue
        found = expression_problems(rule.expr)
        yield from (Problem((*here, "expr"), f"{whose}: {text}") for text in found)
        for name in () if found or not is_closed(table) else fields_of(rule.expr):
            if name.lower() not in {column.lower() for column in columns}:
                message = f"{whose} reads '{name}', which is not one of its columns"
                yield Problem((*here, "expr"), message, suggestion(name, columns))


def _column(column: Column, at: Path, whose: str) -> Iterator[Problem]:
    said = [name for name in COLUMN_RULES if getattr(column, name, None) is not None]
    if column.name == REST:
        yield from (Problem((*at, name), f"'*' in the columns takes no {name}") for name in said)
        return
    if "on_violation" in column.model_fields_set and not said and column.nullable:
        yield Problem((*at, "on_violation"), f"{whose} has no rule that could be violated")
    for name in ("pattern", "min_length", "max_length"):
        if name in said and column.type != "string":
            yield Problem((*at, name), f"{name} is for texts, and the type of {whose} is {column.type}")
    for name in ("min", "max"):
        if name in said and column.type in {"string", "boolean", "binary"}:
            yield Problem((*at, name), f"{name} is for numbers and times, and the type of {whose} is {column.type}")
        elif (value := getattr(column, name)) is not None and not is_value(value, column.type):
            yield Problem((*at, name), f"'{value}', {name} of {whose}, is no {column.type}")
    yield from _accepted(column, (*at, "accepted_values"), whose)


def _accepted(column: Column, at: Path, whose: str) -> Iterator[Problem]:
    if column.accepted_values is None:
        return
    if not column.accepted_values:
        yield Problem(at, f"accepted_values of {whose} has no value")
    if column.type == "binary":
        yield Problem(at, f"accepted_values is for values that can be written, and the type of {whose} is binary")
        return
    for index, value in enumerate(column.accepted_values):
        if not is_value(value, column.type):
            yield Problem((*at, index), f"'{value}', one of accepted_values of {whose}, is no {column.type}")


def is_value(text: str, type_name: str) -> bool:
    """Return whether a text of the declaration is a value of a type, written as databases write it.

    Args:
        text: such as ``12.50``, ``2024-01-31`` or ``2024-01-31 10:00:00+00:00``.
        type_name: a type of the contract in normal form.
    """
    kind = type_name.partition("(")[0]
    if kind == "boolean":
        return text in {"true", "false"}
    if kind in _BITS:
        return bool(re.fullmatch(r"[+-]?\d{1,19}", text)) and -(1 << _BITS[kind]) <= int(text) < 1 << _BITS[kind]
    if kind in {"decimal", "float", "double"}:
        return bool(_NUMBER.fullmatch(text))
    if kind in TIMES:
        return _is_time(text, kind)
    return kind == "string"


def _is_time(text: str, kind: str) -> bool:
    try:
        if kind == "date":
            return len(text) == len("2024-01-31") and date.fromisoformat(text) is not None
        found = datetime.fromisoformat(text)
    except ValueError:
        return False
    return kind == "timestamp" or found.tzinfo is None
