"""Declarations as values, and the problems that a check finds in them."""

from __future__ import annotations

from typing import Any

from frazil.spec import Pipeline
from frazil.spec.check.check import problems

ID = {"name": "id", "type": "int"}
TS = {"name": "ts", "type": "timestamp"}
NAME = {"name": "name", "type": "string"}
DAY = {"name": "day", "type": "date"}
CSV = {"kind": "dms", "path": "landing/hosts", "header": True}
HEADERLESS = {"kind": "dms", "path": "landing/hosts"}
PARQUET = {"kind": "dms", "path": "landing/hosts", "format": "parquet"}
CURRENT, HISTORY = {"kind": "current"}, {"kind": "history"}
SOFT = {"kind": "current", "deletes": "soft"}


def table(**settings: Any) -> dict[str, Any]:
    """Declare a table that is right, but for the settings given."""
    right = {"name": "hosts", "source": CSV, "keys": ["id"], "sequence_by": ["ts"], "columns": [ID, TS, NAME]}
    return {**right, **settings}


def pipeline(*tables: dict[str, Any], **settings: Any) -> Pipeline:
    right = {"pipeline": "shop", "lake": {"warehouse": "lake"}, "tables": tables or (table(),)}
    return Pipeline.model_validate({**right, **settings})


def found(declared: Pipeline) -> str:
    """Show the problems of a pipeline, one a line, with their places."""
    return "\n".join(f"{'.'.join(map(str, problem.path))}: {problem}" for problem in problems(declared))
