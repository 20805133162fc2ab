"""``/lineage``: what a table is made of and what is made of it, and where its columns come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.ui.draw.layers import HEIGHT, WIDTH, layered
from frazil.ui.page import Page

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.spec import Pipeline

_MOST: Final = 200
"""Nodes of a drawing; larger ones would be read by nobody."""


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the lineage around one table; the first one if none is asked for."""
    asked = request.query_params.get("table") or pipeline.tables[0].name
    found = api.lineage(pipeline, asked)
    nodes = found.nodes[:_MOST]
    return {
        "names": [*(table.name for table in pipeline.tables), *(f"gold.{gold.name}" for gold in pipeline.gold)][:_MOST],
        "focus": next(node for node in found.nodes if node.name == found.table),
        "roles": {node.name: node.role for node in nodes},
        "drawing": layered({node.name: node.made_of for node in nodes}),
        "left_out": len(found.nodes) - len(nodes),
        "box": (WIDTH, HEIGHT),
    }


PAGE: Final = Page(path="/lineage", template="lineage.html", show=show, label="Lineage")
