"""One column of a contract, and rules over columns."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from frazil.errors import DeclarationError
from frazil.spec.model.base import Spec
from frazil.spec.model.types import column_type

OnViolation: TypeAlias = Literal["quarantine", "warn", "fail"]
"""Effect on a change that breaks a rule: send it to quarantine; count it and let it pass; stop the run."""


def _as_text(value: Any) -> Any:
    """Write a number, a boolean or a time as text; other values stay, and pydantic checks them."""
    if isinstance(value, bool):
        return f"{value}".lower()
    return f"{value}" if isinstance(value, int | float | Decimal | date) else value


Value: TypeAlias = Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]
"""A value of a column, as text in the notation of a source."""

COLUMN_RULES: Final = ("not_null", "accepted_values", "min", "max", "pattern", "min_length", "max_length")
"""Rules of one column; all except the first are settings of the same name."""


TABLE_RULES: Final = ("unique", "references", "row_count", "freshness")
"""Kinds of rules over a whole mart; each is a setting of a rule."""


class References(Spec):
    """Columns whose values are in columns of another mart, as dbt's ``relationships``."""

    columns: tuple[str, ...] = Field(min_length=1, description="The columns of this table.")
    to: str = Field(description="Name of the other mart.")
    fields: tuple[str, ...] = Field(
        default=(), description="The columns of the other mart, in the same order; left out: its keys."
    )


class RowCount(Spec):
    """Bounds of the number of rows of a mart, and of its change by one batch."""

    min: int | None = Field(default=None, ge=0, description="The fewest rows.")
    max: int | None = Field(default=None, ge=0, description="The most rows.")
    max_decrease_fraction: float | None = Field(
        default=None, ge=0, le=1, description="How much of its rows a mart may lose by one batch."
    )
    max_increase_fraction: float | None = Field(
        default=None, ge=0, description="How much of its rows a mart may gain by one batch; not by the first."
    )


class Age(Spec):
    """A span of time, in dbt's words."""

    count: int = Field(ge=1, description="How many periods.")
    period: Literal["minute", "hour", "day"] = Field(description="minute, hour or day.")

    @property
    def seconds(self) -> int:
        """Return the length in seconds."""
        return self.count * {"minute": 60, "hour": 3600, "day": 86400}[self.period]

    def __str__(self) -> str:
        return f"{self.count} {self.period}{'' if self.count == 1 else 's'}"


class Freshness(Spec):
    """Maximum age of the newest time of a mart."""

    column: str | None = Field(
        default=None, description="A date or a time; left out: the time at which the last batch was taken."
    )
    warn_after: Age | None = Field(default=None, description="Older than this breaks the rule, which then warns.")
    error_after: Age | None = Field(default=None, description="Older than this breaks the rule.")


def _on_violation(data: dict[str, Any]) -> OnViolation:
    return "fail" if any(data.get(kind) is not None for kind in TABLE_RULES) else "quarantine"


class Rule(Spec):
    """A rule over each row of a table (``expr``), or over a whole mart (any other setting)."""

    name: str = Field(description="Name of the rule, in quarantine and in reports.")
    expr: str | None = Field(
        default=None,
        description="Spark SQL over the columns as they are typed, true or false; NULL keeps the rule.",
    )
    unique: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="Columns whose values no two rows share; rows with NULL are left out."
    )
    references: References | None = Field(
        default=None, description="Columns whose values are in another mart; rows with NULL are left out."
    )
    row_count: RowCount | None = Field(default=None, description="Bounds of the number of rows.")
    freshness: Freshness | None = Field(default=None, description="How old the newest time may be.")
    on_violation: OnViolation = Field(
        default_factory=_on_violation,
        description="Effect on a change that breaks it: quarantine (default of expr), warn, or fail (default of "
        "the rules of a mart, which know no quarantine).",
    )

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the given settings among ``expr`` and the rules of a mart; a valid rule has exactly one."""
        return tuple(kind for kind in ("expr", *TABLE_RULES) if getattr(self, kind) is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that a rule of a mart names."""
        if self.freshness is not None:
            return () if self.freshness.column is None else (self.freshness.column,)
        return self.unique or (() if self.references is None else self.references.columns)


def _normal_type(text: str) -> str:
    """Return the normal name of a type; ``spec.check`` reports unknown types together with all other problems."""
    try:
        return column_type(text)
    except DeclarationError:
        return text


class Column(Spec):
    """One column of the contract of silver and marts."""

    name: str = Field(description="Name of the column, and of the source field without an expr.")
    type: Annotated[str, AfterValidator(_normal_type)] = Field(
        default="string",
        description="boolean, int, bigint, float, double, decimal(p,s), string, date, timestamp, "
        "timestamp_ntz, binary, array<type> or struct<name: type, …>.",
    )
    nullable: bool = Field(default=True, description="If false, a record with NULL here breaks the rule not_null.")
    expr: str | None = Field(default=None, description="Spark SQL over the source's fields, which are all text.")
    pii: Literal["drop", "mask", "hmac"] | None = Field(
        default=None,
        description="What is stored in place of the values: drop (NULL), mask (***) or hmac (a hash by pii_key).",
    )
    accepted_values: tuple[Value, ...] | None = Field(default=None, description="The values that it can have.")
    min: Value | None = Field(default=None, description="The least value, for numbers and times.")
    max: Value | None = Field(default=None, description="The greatest value, for numbers and times.")
    pattern: str | None = Field(
        default=None, description="A regular expression that is found in the text; ^ and $ bind it to its ends."
    )
    min_length: int | None = Field(default=None, ge=0, description="The fewest characters of a text.")
    max_length: int | None = Field(default=None, ge=0, description="The most characters of a text.")
    on_violation: OnViolation = Field(
        default="quarantine",
        description="Effect on a change that breaks one of its rules: quarantine, warn or fail.",
    )
