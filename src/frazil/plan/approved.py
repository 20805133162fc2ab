"""Approved plans: a file with the steps that somebody has agreed to, and their digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import BusyError, DeclarationError
from frazil.plan.explain import as_values, explain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frazil.plan.plan import Plan

_HELP: Final = "look at it again and approve it: frazil plan --save FILE"


class ChangedPlanError(BusyError):
    """A run would no longer do what was approved."""

    code = "FZ603"
    retryable = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """An approved plan.

    Attributes:
        select: the words that chose its tables.
        rebuild: silver and marts are computed from all of bronze.
        steps: the steps in words.
        digest: see :func:`digest`.
    """

    select: tuple[str, ...]
    rebuild: bool
    steps: tuple[str, ...]
    digest: str


def digest(plan: Plan) -> str:
    """Return a hash of what a plan would do.

    Plans are the same if they have the same declaration, tables and steps. A step has its batches, and its files with
    their contents' hashes, so a new file makes another plan. Compaction of tables does not.
    """
    values = {
        "declaration": plan.pipeline.model_dump(mode="json"),
        "tables": plan.selection.tables,
        "gold": plan.selection.gold,
        "rebuild": plan.rebuild,
        "steps": as_values(plan.steps),
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def approved_values(plan: Plan, select: Sequence[str]) -> dict[str, Any]:
    """Return an approved plan as plain values, for a file.

    Args:
        plan: a plan without failures.
        select: the words that chose its tables.
    """
    return {
        "pipeline": plan.pipeline.pipeline,
        "select": [*select],
        "rebuild": plan.rebuild,
        "steps": [*map(explain, plan.steps)],
        "digest": digest(plan),
    }


def read_approved(path: Path) -> Approved:
    """Read a file that holds :func:`approved_values`.

    Raises:
        DeclarationError: the file cannot be read, or has another form.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        found = Approved(
            select=tuple(values["select"]),
            rebuild=values["rebuild"] is True,
            steps=tuple(values["steps"]),
            digest=values["digest"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DeclarationError(f"{path} is not a saved plan", hint="frazil plan --save FILE writes one") from error
    return found


def verify_approved(approved: Approved, plan: Plan) -> None:
    """Refuse a plan that differs from the approved one.

    Raises:
        ChangedPlanError: it differs, or a table of it cannot be planned.
    """
    if plan.errors:
        raise ChangedPlanError(f"the approved plan cannot be done: {plan.errors[0].message}", hint=_HELP)
    if digest(plan) == approved.digest:
        return
    steps = [*map(explain, plan.steps)]
    added = [f"now also: {step}" for step in steps if step not in approved.steps]
    gone = [f"not any more: {step}" for step in approved.steps if step not in steps]
    what = "\n".join([*added, *gone]) or "the declaration or the content of a file is another one"
    raise ChangedPlanError(f"the plan is not the approved one; nothing was written\n{what}", hint=_HELP)
