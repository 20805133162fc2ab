"""``/diff``: the changed rows of a mart between two points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.errors import FrazilError
from frazil.spec.sql.select import source_table
from frazil.spec.tables import source_tables
from frazil.ui.page import Page, number_asked

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.serve.query.diff import Diff
    from frazil.spec import Pipeline

_ROWS: Final = 200
_MOST: Final = 2_000


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the difference that the address asks for: from a point, to another one or now."""
    marts = [made.name for table in pipeline.tables for made in source_tables(pipeline, table).marts]
    asked = request.query_params
    values: dict[str, Any] = {
        "marts": marts,
        "mart": asked.get("mart") or (marts[0] if marts else ""),
        "begin": asked.get("from", "").strip(),
        "end": asked.get("to", "").strip(),
        "diff": None,
        "trouble": None,
    }
    if values["begin"]:
        try:
            limit = max(1, number_asked(request, "limit", _ROWS, _MOST))
            found = api.diff(pipeline, values["mart"], values["begin"], values["end"] or None, limit=limit)
            values |= {"diff": found, "rows": _rows(found, _pii(pipeline, values["mart"]))}
        except FrazilError as error:
            values["trouble"] = error
    return values


def _pii(pipeline: Pipeline, mart: str) -> set[str]:
    table = source_table(pipeline, mart)
    return {column.name for column in table.columns or () if column.pii is not None}


def _rows(found: Diff, pii: set[str]) -> list[dict[str, Any]]:
    """Return each changed row with its key, and each column's value before and after; hidden values are None."""
    rows = []
    for row in found.rows:
        old, new = row.old or {}, row.new or {}
        cells = [
            {
                "hidden": name in pii,
                "changed": old.get(name) != new.get(name),
                "old": old.get(name),
                "new": new.get(name),
            }
            for name in found.columns
        ]
        key = [{"hidden": name in pii, "value": value} for name, value in row.key.items()]
        rows.append({"change": row.change, "key": key, "names": [*row.key], "cells": cells})
    return rows


PAGE: Final = Page(path="/diff", template="diff.html", show=show, label="Diff")
