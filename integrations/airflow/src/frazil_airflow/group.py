"""A pipeline as a group of tasks, one for each table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from airflow.sdk import TaskGroup

from frazil_airflow.operators import FrazilRunOperator


def frazil_group(group_id: str, *, project: str, **settings: Any) -> TaskGroup:
    """Make a group with a task for each table of a project, and one for its aggregates after them.

    A table that fails stops no other, and is retried alone. Frazil does one run of a pipeline at a time: tasks that
    find it held are put back without a slot. The declaration is read when Airflow reads the DAG, so a new table
    is a new task without a change of the DAG.

    Args:
        group_id: the name of the group.
        project: the declaration, or its folder, as the scheduler and the workers see it.
        settings: settings of ``FrazilRunOperator`` for all its tasks.

    Raises:
        FileNotFoundError: there is no declaration.
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
