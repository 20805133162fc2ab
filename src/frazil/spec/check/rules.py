"""The rules over a contract's rules: of one column, of several, and of whole marts."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from frazil.spec.contract import REST, declared_columns, is_closed, repeated
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.column import COLUMN_RULES, TABLE_RULES
from frazil.spec.model.types import TIMES
from frazil.spec.sql.sql import expression_problems, fields_of, mart_named, referenced_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.column import Column, Freshness, RowCount, Rule
    from frazil.spec.model.pipeline import Pipeline, Table


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
"""Names of Frazil's own rules."""

_BITS: Final = {"int": 31, "bigint": 63}
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def rule_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of the rules of a table and of its columns; ``at`` is the path of the table."""
    for index, column in enumerate(table.columns or ()):
        whose = f"column '{column.name}' of table '{table.name}'"
        yield from _column(column, (*at, "columns", index), whose)
    names = [rule.name for rule in table.rules]
    for name in repeated(names):
        yield Problem((*at, "rules"), f"rule '{name}' of table '{table.name}' is declared {names.count(name)} times")
    columns = declared_columns(table)
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
            yield Problem((*at, name), f"'{value}', {name} of {whose}, is not a valid {column.type}")
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
            yield Problem((*at, index), f"'{value}', one of accepted_values of {whose}, is not a valid {column.type}")


def is_value(text: str, type_name: str) -> bool:
    """Return whether a declared text is a value of a type in the usual notation of databases.

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


_NUMBERS: Final = ("int", "bigint", "decimal", "float", "double")


def table_rule_problems(table: Table, rule: Rule, at: Path) -> Iterator[Problem]:
    """Yield problems of one rule, except those of its expression and of the mart that it refers to.

    Args:
        table: the declared table.
        rule: one of its rules.
        at: path of the rule in the declaration.
    """
    whose = f"rule '{rule.name}' of table '{table.name}'"
    if len(rule.kinds) != 1:
        said = f"says {', '.join(rule.kinds)}" if rule.kinds else "says nothing"
        yield Problem(at, f"{whose} {said}", f"give it one of expr, {', '.join(TABLE_RULES)}")
        return
    [kind] = rule.kinds
    if kind == "expr":
        return
    if rule.on_violation == "quarantine":
        hint = "write on_violation: fail or warn" if kind != "freshness" else "leave on_violation out"
        message = f"{whose}: {kind} is not a matter of one record, so no record goes to quarantine by it"
        yield Problem((*at, "on_violation"), message, hint)
    elif kind == "freshness" and "on_violation" in rule.model_fields_set:
        message = f"{whose}: on_violation has no use, since warn_after and error_after say what it does"
        yield Problem((*at, "on_violation"), message, "leave it out")
    place = (*at, kind) if kind == "unique" else (*at, kind, "column" if kind == "freshness" else "columns")
    columns = declared_columns(table)
    for name in rule.columns if is_closed(table) else ():
        if name not in columns:
            yield Problem(place, f"{whose} names '{name}', which is not one of its columns", suggestion(name, columns))
    for name in repeated(rule.columns):
        yield Problem(place, f"{whose} names '{name}' twice")
    if rule.row_count is not None:
        yield from _row_count(rule.row_count, (*at, kind), whose)
    if rule.freshness is not None:
        yield from _freshness(table, rule.freshness, (*at, kind), whose)


def _row_count(bounds: RowCount, at: Path, whose: str) -> Iterator[Problem]:
    if not bounds.model_dump(exclude_none=True):
        yield Problem(at, f"{whose} has no bound", f"give it one of {', '.join(type(bounds).model_fields)}")
    if bounds.min is not None and bounds.max is not None and bounds.min > bounds.max:
        yield Problem((*at, "min"), f"{whose}: min {bounds.min} is more than max {bounds.max}")


def _freshness(table: Table, freshness: Freshness, at: Path, whose: str) -> Iterator[Problem]:
    warn, error = freshness.warn_after, freshness.error_after
    if warn is None and error is None:
        yield Problem(at, f"{whose} has no age", "give it warn_after, error_after or both")
    if warn is not None and error is not None and warn.seconds > error.seconds:
        yield Problem((*at, "warn_after"), f"{whose}: warn_after ({warn}) is later than error_after ({error})")
    column = declared_columns(table).get(freshness.column or "")
    if column is not None and column.type not in TIMES:
        message = f"{whose}: '{column.name}' must be a date or a time, and its type is {column.type}"
        yield Problem((*at, "column"), message)


def reference_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Yield problems of the references of rules to other marts."""
    marts = {table.mart_name(mart) for table in pipeline.tables for mart in table.marts}
    for number, table in enumerate(pipeline.tables):
        for index, rule in enumerate(table.rules):
            if (reference := rule.references) is None:
                continue
            at, whose = ("tables", number, "rules", index, "references"), f"rule '{rule.name}' of table '{table.name}'"
            found = mart_named(pipeline, reference.to)
            if found is None:
                message = f"{whose} refers to '{reference.to}', which is not a mart"
                yield Problem((*at, "to"), message, suggestion(reference.to, marts))
                continue
            yield from _fields(table, rule, found[0], at)


def _fields(table: Table, rule: Rule, other: Table, at: Path) -> Iterator[Problem]:
    """Yield differences between the columns of a rule and the columns that it refers to."""
    reference, whose = rule.references, f"rule '{rule.name}' of table '{table.name}'"
    if reference is None:
        return
    fields, theirs, mine = referenced_fields(reference, other), declared_columns(other), declared_columns(table)
    if len(fields) != len(reference.columns):
        what = "fields has" if reference.fields else f"the key of '{reference.to}' has"
        message = f"{whose}: columns has {len(reference.columns)}, {what} {len(fields)}: {', '.join(fields)}"
        yield Problem(at, message, "name as many fields as columns")
        return
    for name, field in zip(reference.columns, fields, strict=True):
        if is_closed(other) and field not in theirs:
            message = f"{whose} refers to '{field}', which is not one of the columns of '{reference.to}'"
            yield Problem((*at, "fields"), message, suggestion(field, theirs))
        elif name in mine and field in theirs and _family(mine[name].type) != _family(theirs[field].type):
            message = f"{whose}: '{name}' is {mine[name].type}, and '{field}' of '{reference.to}' {theirs[field].type}"
            yield Problem((*at, "columns"), message, "give both the same type")


def _family(type_name: str) -> str:
    kind = type_name.partition("(")[0]
    return "number" if kind in _NUMBERS else kind
