"""What a plan should draw attention to, though nothing is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.silver.evolution import later_fields
from frazil.spec.amount import counted
from frazil.spec.contract import on_new_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.plan.state import TableState
    from frazil.spec import Table
    from frazil.spec.model.evolution import OnChange

_SHOWN = 10


def undeclared_fields(state: TableState) -> tuple[str, ...]:
    """Names of fields that come for the first time and that no column takes; bronze keeps them."""
    if state.contract is None:
        return ()
    taken = {field for column in state.contract.columns for field in state.contract.needs(column)}
    known = taken | {name.lower() for name in state.seen_fields}
    come = {name.lower(): name for file in state.taken.files for name, _ in file.fields}
    return tuple(shown for name, shown in come.items() if name not in known)


def warnings(table: Table, state: TableState) -> list[str]:
    """Write what a user should know of what is about to be taken, and of what is not: a sentence each."""
    waiting = state.taken.deferred
    found = [f"{path} waits: {reason}" for path, reason in waiting[:_SHOWN]]
    if waiting[_SHOWN:]:
        found.append(f"{counted(len(waiting) - _SHOWN, 'more file waits', 'more files wait')}")
    found += state.taken.notes
    if state.treating:
        found.append(
            "old snapshots and files may still hold values of columns with pii: "
            f"frazil erase --table {table.name} --pii ends what was begun"
        )
    if again := state.taken.loads_again:
        # Without one, full loads stand before all change files.
        loses = "" if table.sequence_by else ", and changes taken before win over its rows"
        found.append(
            f"{again[0]} is a full load, and one of that name was taken before: rows that are in no file of it "
            f"stay{loses}. If it is to replace the table, take all files from before it away and begin again: "
            f"frazil drop --select {table.name}, then frazil run"
        )
    fields = [name for name in undeclared_fields(state) if not table.source.is_bookkeeping(name)]
    if state.seen_fields:
        return [*found, *_undeclared(fields, on_new_column(table), is_later=True)]
    named = [file.fields for file in state.taken.files if not file.broken]
    later = {name.lower() for name in later_fields(named)}
    for is_later in (False, True):
        some = [name for name in fields if (name.lower() in later) == is_later]
        found += _undeclared(some, on_new_column(table), is_later=is_later)
    return found


def _undeclared(fields: Sequence[str], policy: OnChange, *, is_later: bool) -> list[str]:
    """Say which fields are in no column; ``evolve`` would take those that came later than the first file."""
    if not fields:
        return []
    shown = ", ".join(map(repr, fields[:_SHOWN])) + (f" and {len(fields) - _SHOWN} more" if fields[_SHOWN:] else "")
    they, are = ("it", "is") if len(fields) == 1 else ("them", "are")
    text = f"{counted(len(fields), 'field')} of the source {are} in no column: {shown}. Bronze keeps {they}; "
    if policy == "quarantine":
        text += f"records with a value in {they} wait in quarantine; "
    or_evolve = ", or say on_new_column: evolve" if is_later and policy != "evolve" else ""
    return [f"{text}to have {they} in the marts, declare {they}{or_evolve}"]
