"""Compile the rules of a contract to SQL: of Spark, which checks changes, and of DuckDB, which tests tables."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Protocol

from frazil.spec.sql import names
from frazil.spec.sql.sql import fields_of

if TYPE_CHECKING:
    from frazil.silver.contract import Contract
    from frazil.spec import Column
    from frazil.spec.model.column import OnViolation

NOT_NULL: Final = "not_null"


class Dialect(Protocol):
    """SQL syntax that differs between engines."""

    def name(self, column: str) -> str:
        """Write the name of a column."""

    def text(self, value: str) -> str:
        """Write a text."""

    def typed(self, value: str, type_name: str) -> str:
        """Write a value of a type other than text and decimal."""

    def finds(self, text: str, pattern: str) -> str:
        """Write the condition that a text contains a match of a pattern; both are SQL."""


class Spark:
    """Spark's SQL: a :class:`Dialect`."""

    def name(self, column: str) -> str:
        """Write the name of a column."""
        return names.quote(column)

    def text(self, value: str) -> str:
        """Write a text."""
        return names.literal(value)

    def typed(self, value: str, type_name: str) -> str:
        """Write a value of a type."""
        return f"CAST({names.literal(value)} AS {type_name})"

    def finds(self, text: str, pattern: str) -> str:
        """Write the condition that a text contains a match of a pattern."""
        return f"{text} RLIKE {pattern}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """A rule over single rows.

    Attributes:
        name: name of the rule.
        column: the column of the rule; None for a rule over several columns.
        columns: the columns that it reads; a record that does not carry all of them cannot break it.
        on_violation: effect on a change that breaks it.
        type: type of the column; empty without a column.
        values: the declared accepted values, bound or pattern; empty for ``not_null``.
        expr: expression of a rule over several columns.
    """

    name: str
    column: str | None
    columns: tuple[str, ...]
    on_violation: OnViolation
    type: str = ""
    values: tuple[str, ...] = ()
    expr: str | None = None

    @property
    def full_name(self) -> str:
        """Return the rule and its column as one name, such as ``accepted_values of status``."""
        return self.name if self.column is None else f"{self.name} of {self.column}"

    @property
    def says(self) -> str:
        """Return the message of a violation; callers add the value."""
        if self.expr is not None:
            return f"not so: {' '.join(self.expr.split())}"
        shown = ", ".join(self.values)
        return {
            NOT_NULL: f"{self.column} is NULL",
            "accepted_values": f"{self.column} is none of {shown}",
            "min": f"{self.column} is less than {shown}",
            "max": f"{self.column} is greater than {shown}",
            "pattern": f"{self.column} does not match {shown}",
            "min_length": f"{self.column} is shorter than {shown}",
            "max_length": f"{self.column} is longer than {shown}",
        }[self.name]


def row_rules(contract: Contract) -> tuple[RowRule, ...]:
    """Return all row rules of a contract: those of columns, in order, then those over several columns.

    Keys and sequence columns are never NULL, whatever is declared, so they have no rule ``not_null``.
    """
    must = {*contract.keys, *contract.sequence_by}
    found = [rule for column in contract.columns for rule in _of_column(column, is_must=column.name in must)]
    by_lower = {name.lower(): name for name in contract.names}
    for rule in contract.rules:
        if rule.expr is None:
            continue
        reads = tuple(by_lower.get(name.lower(), name) for name in fields_of(rule.expr))
        found.append(
            RowRule(name=rule.name, column=None, columns=reads, on_violation=rule.on_violation, expr=rule.expr)
        )
    return tuple(found)


def _of_column(column: Column, *, is_must: bool) -> list[RowRule]:
    declared: dict[str, tuple[str, ...]] = {}
    if not column.nullable and not is_must:
        declared[NOT_NULL] = ()
    if column.accepted_values is not None:
        declared["accepted_values"] = column.accepted_values
    for name in ("min", "max", "pattern", "min_length", "max_length"):
        value = getattr(column, name)
        if value is not None:
            declared[name] = (f"{value}",)
    return [
        RowRule(
            name=name,
            column=column.name,
            columns=(column.name,),
            on_violation=column.on_violation,
            type=column.type,
            values=values,
        )
        for name, values in declared.items()
    ]


def breaks(rule: RowRule, sql: Dialect) -> str:
    """Write the condition that a row breaks a rule of one column; it never fails, and NULL breaks only ``not_null``.

    Cost: no UDF.
    """
    column = sql.name(rule.column or "")
    if rule.name == NOT_NULL:
        return f"{column} IS NULL"
    values = [_value(value, rule.type, sql) for value in rule.values]
    condition = {
        "accepted_values": lambda: f"{column} NOT IN ({', '.join(values)})",
        "min": lambda: f"{column} < {values[0]}",
        "max": lambda: f"{column} > {values[0]}",
        "pattern": lambda: f"NOT ({sql.finds(column, values[0])})",
        "min_length": lambda: f"length({column}) < {int(rule.values[0])}",
        "max_length": lambda: f"length({column}) > {int(rule.values[0])}",
    }[rule.name]()
    return f"coalesce({condition}, false)"


def _value(text: str, type_name: str, sql: Dialect) -> str:
    """Write a declared value without rounding."""
    if type_name == "string":
        return sql.text(text)
    if type_name.startswith("decimal"):
        return format(Decimal(text), "f")
    return sql.typed(text, type_name)
