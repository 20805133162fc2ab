"""The rules over a table's retention: what a horizon in time can be drawn through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.spec.contract import declared, event_time
from frazil.spec.mart import History
from frazil.spec.problem import Problem
from frazil.spec.types import TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.pipeline import Table
    from frazil.spec.problem import Path

_KINDS: Final = ("dms", "audit_log")
"""Kinds of sources all of whose records, truncates too, carry the columns of ``sequence_by``."""


def retention_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what keeps a table from having a horizon; ``at`` is the table's path."""
    if table.retention is None:
        return
    here, whose = (*at, "retention"), f"retention of table '{table.name}'"
    if table.source.kind not in _KINDS:
        message = f"the {whose}: changes of kind '{table.source.kind}' cannot be folded into a baseline"
        yield Problem(here, message, f"only {' and '.join(_KINDS)} can have a retention: leave it out")
        return
    first = table.sequence_by[0] if table.sequence_by else ""
    column = declared(table).get(first)
    if column is None or column.type not in TIMES:
        what = f"'{first}', the first of sequence_by, is not declared as one" if first else "there is no sequence_by"
        message = f"the {whose} needs a time that orders changes: {what}"
        yield Problem(here, message, "name a column first in sequence_by that columns declare as a timestamp or a date")
        return
    time = event_time(table)
    if time != first and any(isinstance(mart, History) for mart in table.marts):
        message = f"the {whose}: history takes its times from '{time}', which is not the first of sequence_by"
        yield Problem(here, message, f"leave effective_at out, or name '{time}' first in sequence_by")
