"""The yardstick of the first load: Spark reads the CSV once, typed, and writes one Iceberg table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.contenders.merge import Merge

if TYPE_CHECKING:
    from bench.contenders.contender import Task


def make(name: str, task: Task) -> Merge:  # noqa: ARG001 - one contender, one name
    """Make the contender: its load is the careful MERGE's, and nothing is ever applied."""
    return Merge(task)
