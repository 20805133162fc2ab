"""Approve plans, and plan runs that do only what was approved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from frazil.api.declaring import load
from frazil.api.running import plan as make_plan

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.api.declaring import Declaration
    from frazil.plan.plan import Plan
    from frazil.spec.sql.select import Words


def save_plan(plan: Plan, path: Path, *, select: Words = ()) -> None:
    """Write a plan to a file that approves it, for :func:`approved_plan`.

    Args:
        plan: a plan without failures.
        path: the file; an existing one is replaced.
        select: the words that chose its tables.

    Raises:
        UnwritableFileError: the file cannot be written.
    """
    from frazil.plan.plan import approved_values
    from frazil.spec.load.project import created
    from frazil.spec.sql.select import words

    with created(path) as file:
        file.write(json.dumps(approved_values(plan, words(select)), indent=2, ensure_ascii=False) + "\n")


def approved_plan(declaration: Declaration, path: Path) -> Plan:
    """Return the plan of a run if it is the approved one, for :func:`run`; starts no JVM.

    Plans are the same if they have the same declaration, tables and steps, with the same batches and files.

    Args:
        declaration: a pipeline, or the path of its declaration.
        path: the file of an approved plan.

    Raises:
        ChangedPlanError: the plan is another one now.
        DeclarationError: the file has no saved plan, or the declaration is wrong.
    """
    from frazil.plan.plan import read_approved, verify_approved

    approved = read_approved(path)
    found = make_plan(load(declaration), select=approved.select, rebuild=approved.rebuild)
    verify_approved(approved, found)
    return found
