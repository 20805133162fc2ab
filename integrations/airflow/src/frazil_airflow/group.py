"""A task group with one task for each table of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from airflow.sdk import TaskGroup

from frazil_airflow.operators import FrazilRunOperator


def frazil_group(group_id: str, *, project: str, **settings: Any) -> TaskGroup:
    """Return a task group with a task for each table of a project, followed by one for its aggregates.

    A failed table does not stop the others, and is retried alone. Frazil runs a pipeline once at a time: a task that
    finds it busy is rescheduled and frees its slot. Airflow reads the declaration when it parses the DAG, so a new
    table becomes a new task without a change of the DAG.

    Args:
        group_id: name of the group.
        project: the declaration, or its folder, as a path on the scheduler and the workers.
        settings: arguments of ``FrazilRunOperator`` for all tasks.

    Raises:
        FileNotFoundError: the declaration does not exist.
    """
    declaration = Path(project)
    file = declaration / "frazil.yml" if declaration.is_dir() else declaration
    declared = yaml.safe_load(file.read_text(encoding="utf-8"))
    with TaskGroup(group_id) as group:
        tables = [
            FrazilRunOperator(task_id=table["name"], project=project, select=[table["name"]], **settings)
            for table in declared["tables"]
        ]
        if declared.get("gold"):
            tables >> FrazilRunOperator(task_id="gold", project=project, select=["gold"], **settings)
    return group
