"""Steps as text for people and as values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, assert_never

from frazil.plan.policy import overwrite_from
from frazil.spec.amount import counted, sized
from frazil.steps import (
    AddColumn,
    AlterTable,
    FoldChanges,
    Ingest,
    Normalize,
    RefreshGold,
    RemoveProperty,
    RenameColumn,
    SetLiveView,
    SetProperty,
    SetSortOrder,
    Step,
    UpdateMart,
    WidenColumn,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frazil.steps import Alteration

_SHOWN_FILES = 5


def explain_captures(
    captures: Mapping[str, Sequence[str]], waiting: Mapping[str, Mapping[str, int | None] | str]
) -> list[str]:
    """Describe what a run captures before its steps, a line for each slot or topic.

    Args:
        captures: as :attr:`frazil.plan.plan.Plan.captures`.
        waiting: as :attr:`frazil.plan.plan.Plan.waiting`.
    """
    # Where nothing is counted, capture fails for all of its tables.
    found = {name: (tables, waiting.get(name)) for name, tables in captures.items()}
    return [_explain_capture(name, tables, counts) for name, (tables, counts) in found.items() if counts != {}]


def _explain_capture(name: str, tables: Sequence[str], waiting: Mapping[str, int | None] | str | None) -> str:
    if waiting is None:
        return f"{', '.join(tables)}: a run captures {name} first; the plan shows only what was captured before"
    if isinstance(waiting, str):
        return f"{', '.join(tables)}: number of changes at {name} unknown: {waiting}"
    counts = (
        f"{table}: " + ("all rows are to be loaded" if count is None else f"{counted(count, 'change')} to be captured")
        for table, count in waiting.items()
    )
    return f"{name}: {', '.join(counts)}"


def explain(step: Step) -> str:
    """Describe a step in a few lines."""
    match step:
        case Ingest():
            return _explain_files(step)
        case FoldChanges() | Normalize():
            return _explain_changes(step)
        case UpdateMart():
            return _explain_mart(step)
        case AlterTable():
            return f"{step.table}: alter {step.name}: {', '.join(map(_explain_change, step.changes))}"
        case RefreshGold():
            what = "refresh the touched groups of" if step.is_incremental else "refresh"
            return f"gold: {what} {step.name} from {', '.join(name for name, _ in step.inputs)}"
        case _:
            assert_never(step)


def as_values(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Return steps as plain values with their kind, for JSON."""
    return [_as_value(step) for step in steps]


def _as_value(step: Step) -> dict[str, Any]:
    value = {"step": type(step).__name__, **asdict(step)}
    if isinstance(step, AlterTable):
        value["changes"] = [{"change": type(change).__name__, **asdict(change)} for change in step.changes]
    return value


def _explain_files(step: Ingest) -> str:
    files = f"{counted(len(step.files), 'file')} ({sized(step.size_bytes)})"
    lines = [f"{step.table}: ingest {files} as batch {step.batch}"]
    lines += [f"    {file.path}" for file in step.files[:_SHOWN_FILES]]
    if len(step.files) > _SHOWN_FILES:
        lines.append(f"    and {len(step.files) - _SHOWN_FILES} more")
    lines += [
        f"    {file.path} is the same as {file.same_as}: noted, not read" for file in step.duplicates[:_SHOWN_FILES]
    ]
    return "\n".join(lines)


def _explain_changes(step: FoldChanges | Normalize) -> str:
    if isinstance(step, FoldChanges):
        why = f"older than {counted(step.days, 'day')}" if step.days else "to end what a killed run began"
        return f"{step.table}: fold the changes before {step.before[:10]} into the baseline; {why}"
    if step.rebuild:
        return f"{step.table}: rebuild the typed changes from bronze, {_batches(0, step.upto)}; {step.reason}"
    return f"{step.table}: normalize {_batches(step.after, step.upto)}"


def _explain_mart(step: UpdateMart) -> str:
    if step.rebuild:
        return f"{step.table}: rebuild {step.mart} from all changes; {step.reason}"
    text = f"{step.table}: apply {_batches(step.after, step.upto)} to {step.mart}"
    most = counted(overwrite_from(step.rows), "change")
    return f"{text}, overwritten if more than {most}" if step.after else text


def _explain_change(change: Alteration) -> str:
    match change:
        case AddColumn():
            return f"add column {change.column} {change.type}"
        case RenameColumn():
            return f"rename column {change.column} to {change.name}"
        case WidenColumn():
            return f"widen column {change.column} from {change.before} to {change.type}"
        case SetSortOrder():
            return f"sort new files by {', '.join(change.columns)}" if change.columns else "do not sort new files"
        case SetProperty() | RemoveProperty():
            value = f" to {change.value!r}" if isinstance(change, SetProperty) else ""
            return f"{'set' if value else 'remove'} property {change.name}{value}"
        case SetLiveView():
            said = [f"drop live view {change.before}"] if change.before else []
            return " and ".join([*said, *([f"create live view {change.after}"] if change.after else [])])
        case _:
            assert_never(change)


def _batches(after: int, upto: int) -> str:
    return f"batch {upto}" if upto == after + 1 else f"batches {after + 1} to {upto}"
