"""How often tables are compared with their sources."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, WithJsonSchema

from frazil.spec.load.problem import Problem
from frazil.spec.model.base import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPAN: Final = re.compile("[1-9][0-9]{0,3}[mhd]")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}

Span = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{_SPAN.pattern}$"})]
"""A span of time: a whole number and ``m``, ``h`` or ``d``."""


class Verify(Spec):
    """Runs compare tables with their sources, as ``frazil check --source`` does."""

    every: Span = Field(description="A table is compared when it was last found equal so long ago: 30m, 12h, 1d.")

    @property
    def span(self) -> dt.timedelta:
        """Return ``every`` as a span of time."""
        return dt.timedelta(**{_UNITS[self.every[-1]]: int(self.every[:-1])})


def verify_problems(verify: Verify | None) -> Iterator[Problem]:
    """Yield the problem of a span of time that is none."""
    if verify is not None and _SPAN.fullmatch(verify.every) is None:
        hint = "write minutes, hours or days: 30m, 12h, 1d"
        yield Problem(("verify", "every"), f"'every' of verify is '{verify.every}'", hint)
