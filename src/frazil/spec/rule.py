"""Rules that rows keep, beside their types: of one column, or of several."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from frazil.spec.base import Spec

OnViolation: TypeAlias = Literal["quarantine", "warn", "fail"]
"""What becomes of a change that breaks a rule: it goes to quarantine; it is counted and passes; it stops the run."""


def _as_text(value: Any) -> Any:
    """Write a number, a truth or a time as text; everything else stays, for pydantic to judge."""
    if isinstance(value, bool):
        return f"{value}".lower()
    return f"{value}" if isinstance(value, int | float | Decimal | date) else value


Value: TypeAlias = Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]
"""A value of a column, as the text that a source would send."""

COLUMN_RULES: Final = ("not_null", "accepted_values", "min", "max", "pattern", "min_length", "max_length")
"""Names of the rules of one column; all but the first are settings of the same name."""


class Rule(Spec):
    """What every row of a table keeps."""

    name: str = Field(description="Name of the rule, in quarantine and in reports.")
    expr: str = Field(description="Spark SQL over the columns as they are typed, true or false; NULL keeps the rule.")
    on_violation: OnViolation = Field(
        default="quarantine", description="What becomes of a change that breaks it: quarantine, warn or fail."
    )
