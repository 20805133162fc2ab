"""Steps as text for people and as values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, assert_never

from frazil.plan.apply_strategy import overwrite_from
from frazil.spec.amount import counted, sized
from frazil.steps import AlterMart, Ingest, Normalize, RefreshGold, Step, UpdateMart

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_FILES = 5


def explain(step: Step) -> str:
    """Return in a few lines what a step will do."""
    match step:
        case Ingest():
            return _explain_files(step)
        case Normalize(rebuild=True):
            return f"{step.table}: rebuild the typed changes from bronze, {_batches(0, step.upto)}; {step.reason}"
        case Normalize():
            return f"{step.table}: normalize {_batches(step.after, step.upto)}"
        case UpdateMart():
            return _explain_mart(step)
        case AlterMart():
            return f"{step.table}: alter {step.mart}; {', '.join(step.settings)} changed"
        case RefreshGold():
            return f"gold: refresh {step.name} from {', '.join(name for name, _ in step.inputs)}"
        case _:
            assert_never(step)


def as_values(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Return steps as plain values with their kind, for JSON."""
    return [{"step": type(step).__name__, **asdict(step)} for step in steps]


def _explain_files(step: Ingest) -> str:
    files = f"{counted(len(step.files), 'file')} ({sized(step.size_bytes)})"
    lines = [f"{step.table}: ingest {files} as batch {step.batch}"]
    lines += [f"    {file.path}" for file in step.files[:_SHOWN_FILES]]
    if len(step.files) > _SHOWN_FILES:
        lines.append(f"    and {len(step.files) - _SHOWN_FILES} more")
    lines += [
        f"    {file.path} is the same as {file.same_as}: noted, not read" for file in step.duplicates[:_SHOWN_FILES]
    ]
    lines += [f"    {path} waits: {reason}" for path, reason in step.deferred[:_SHOWN_FILES]]
    return "\n".join(lines)


def _explain_mart(step: UpdateMart) -> str:
    if step.rebuild:
        return f"{step.table}: rebuild {step.mart} from all changes; {step.reason}"
    text = f"{step.table}: apply {_batches(step.after, step.upto)} to {step.mart}"
    return f"{text}, overwritten if more than {counted(overwrite_from(step.rows), 'change')}" if step.after else text


def _batches(after: int, upto: int) -> str:
    return f"batch {upto}" if upto == after + 1 else f"batches {after + 1} to {upto}"
