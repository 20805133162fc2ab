"""What a plan should draw attention to, though nothing is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.silver.contract import settle
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.plan.state import TableState
    from frazil.spec import Table

_SHOWN = 10


def undeclared_fields(table: Table, state: TableState) -> tuple[str, ...]:
    """Names of fields that come for the first time and that no column of a closed contract takes.

    A contract is closed where ``columns`` are declared without ``"*"``. Bronze keeps such fields.
    """
    if table.columns is None or any(column.name == "*" for column in table.columns):
        return ()
    known = {name.lower() for name in state.seen_fields}
    come = {name.lower(): name for file in state.taken.files for name, _ in file.fields}
    new = {name: shown for name, shown in come.items() if name not in known and not table.source.is_bookkeeping(shown)}
    if not new:
        return ()
    contract = settle(table, {})
    taken = {field for column in contract.columns for field in contract.needs(column)}
    return tuple(shown for name, shown in new.items() if name not in taken)


def warnings(table: Table, state: TableState) -> list[str]:
    """Write what a user should know of what is about to be taken, and of what is not: a sentence each."""
    waiting = state.taken.deferred
    found = [f"{path} waits: {reason}" for path, reason in waiting[:_SHOWN]]
    if waiting[_SHOWN:]:
        found.append(f"{counted(len(waiting) - _SHOWN, 'more file waits', 'more files wait')}")
    return [*found, *_undeclared(undeclared_fields(table, state))]


def _undeclared(fields: Sequence[str]) -> list[str]:
    if not fields:
        return []
    shown = ", ".join(map(repr, fields[:_SHOWN])) + (f" and {len(fields) - _SHOWN} more" if fields[_SHOWN:] else "")
    they, are = ("it", "is") if len(fields) == 1 else ("them", "are")
    text = f"{counted(len(fields), 'field')} of the source {are} in no declared column: {shown}. Bronze keeps {they}; "
    return [f"{text}to have {they} in the marts, declare {they}, or end columns with '*'"]
