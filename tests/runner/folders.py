"""Runs and reads of a project in a folder, as its declaration is at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import frazil
from frazil import api
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path


def run(folder: Path, *, rebuild: bool = False) -> None:
    pipeline = frazil.load(folder)
    frazil.run(pipeline, spark=spark_session(pipeline), rebuild=rebuild)


def rows(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in api.query(folder, sql).rows]
