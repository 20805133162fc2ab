"""The rules over a contract's rules of whole marts: which columns, which other mart, which bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.spec.contract import declared, is_closed, repeated
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.rule import TABLE_RULES
from frazil.spec.model.types import TIMES
from frazil.spec.sql.references import mart_named, referenced_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Pipeline, Table
    from frazil.spec.model.rule import Freshness, RowCount, Rule

_NUMBERS: Final = ("int", "bigint", "decimal", "float", "double")


def table_rule_problems(table: Table, rule: Rule, at: Path) -> Iterator[Problem]:
    """Find what is wrong with a rule, its expression and the mart that it refers to aside; ``at`` is its path."""
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
    columns = declared(table)
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
    column = declared(table).get(freshness.column or "")
    if column is not None and column.type not in TIMES:
        message = f"{whose}: '{column.name}' is no date and no time, its type is {column.type}"
        yield Problem((*at, "column"), message)


def reference_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Find what is wrong with what rules refer to in other marts."""
    marts = {table.mart_name(mart) for table in pipeline.tables for mart in table.marts}
    for number, table in enumerate(pipeline.tables):
        for index, rule in enumerate(table.rules):
            if (reference := rule.references) is None:
                continue
            at, whose = ("tables", number, "rules", index, "references"), f"rule '{rule.name}' of table '{table.name}'"
            found = mart_named(pipeline, reference.to)
            if found is None:
                message = f"{whose} refers to '{reference.to}', which is no mart"
                yield Problem((*at, "to"), message, suggestion(reference.to, marts))
                continue
            yield from _fields(table, rule, found[0], at)


def _fields(table: Table, rule: Rule, other: Table, at: Path) -> Iterator[Problem]:
    """Compare the columns of a rule with those that it refers to."""
    reference, whose = rule.references, f"rule '{rule.name}' of table '{table.name}'"
    if reference is None:
        return
    fields, theirs, mine = referenced_fields(reference, other), declared(other), declared(table)
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
