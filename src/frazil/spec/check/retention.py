"""The rules over a table's retention: what a horizon in time can be drawn through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.spec.contract import declared, event_time
from frazil.spec.load.problem import Problem
from frazil.spec.model.mart import History
from frazil.spec.model.types import TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Table

_BY_TIME: Final = ("dms", "audit_log")
"""Kinds of sources all of whose records, truncates too, carry the columns of ``sequence_by``."""

_BY_PLACE: Final = ("audit_log", "postgres", "debezium", "snapshot", "handover")
"""Kinds that order their changes themselves, and say of each when it happened."""

_SHARDED: Final = "dms"
"""The kind whose shards may have one horizon: no shard of it is emptied, at a place that says nothing of the others."""


def retention_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what keeps a table from having a horizon; ``at`` is the table's path."""
    if table.retention is None:
        return
    here, whose = (*at, "retention"), f"retention of table '{table.name}'"
    kind = table.source.kind
    if kind == "sharded" and table.source.first.kind == _SHARDED:
        kind = _SHARDED
    if kind not in (*_BY_TIME, *_BY_PLACE):
        message = f"the {whose}: changes of kind '{kind}' cannot be folded into a baseline"
        kinds = ", ".join(dict.fromkeys((*_BY_TIME, *_BY_PLACE)))
        yield Problem(here, message, f"only tables of {kinds}, and shards of {_SHARDED}, can have one: leave it out")
    elif kind in _BY_PLACE and not table.sequence_by:
        yield from _by_place(table, here, whose)
    elif kind in _BY_TIME:
        yield from _by_time(table, here, whose)
    else:
        message = f"the {whose}: records of kind '{kind}' need not carry '{table.sequence_by[0]}'"
        yield Problem(here, message, "leave sequence_by out: the source orders its changes")


def _by_place(table: Table, here: Path, whose: str) -> Iterator[Problem]:
    time, own = event_time(table), table.source.event_time
    if time != own and any(isinstance(mart, History) for mart in table.marts):
        message = f"the {whose}: history takes its times from '{time}', and the source orders its changes by '{own}'"
        yield Problem(here, message, "leave effective_at out")


def _by_time(table: Table, here: Path, whose: str) -> Iterator[Problem]:
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
