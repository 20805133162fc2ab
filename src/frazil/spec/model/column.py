"""One column of a contract."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from frazil.errors import DeclarationError
from frazil.spec.model.base import Spec
from frazil.spec.model.rule import OnViolation, Value  # noqa: TC001 - pydantic reads them at run time
from frazil.spec.model.types import column_type


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
