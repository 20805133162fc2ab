"""Steps as text for people and as values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, assert_never

from frazil.plan.way import most_marked
from frazil.steps import Refine, RefreshGold, Step, TakeFiles, UpdateMart

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_FILES = 5
_MEGA = 1_000_000


def explain(step: Step) -> str:
    """Say in a few lines what a step will do."""
    match step:
        case TakeFiles():
            return _explain_files(step)
        case Refine(rebuild=True):
            return f"{step.table}: make typed changes anew from all of bronze, batches 1 to {step.upto}"
        case Refine():
            return f"{step.table}: type and check {_batches(step.after, step.upto)}"
        case UpdateMart():
            return _explain_mart(step)
        case RefreshGold():
            return f"gold: compute {step.name} from {', '.join(name for name, _ in step.inputs)}"
        case _:
            assert_never(step)


def as_values(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Give steps as plain values with their kind, for JSON."""
    return [{"step": type(step).__name__, **asdict(step)} for step in steps]


def _explain_files(step: TakeFiles) -> str:
    lines = [f"{step.table}: take {len(step.files)} files ({step.size_bytes / _MEGA:.1f} MB) as batch {step.batch}"]
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
        return f"{step.table}: make {step.mart} anew from all changes"
    text = f"{step.table}: apply {_batches(step.after, step.upto)} to {step.mart}"
    return f"{text}, written anew if more than {most_marked(step.rows):,} changes" if step.after else text


def _batches(after: int, upto: int) -> str:
    return f"batch {upto}" if upto == after + 1 else f"batches {after + 1} to {upto}"
