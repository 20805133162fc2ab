"""``/late``: how late changes arrive, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.ui.draw.heat import draw_heat
from frazil.ui.page import Page

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.spec import Pipeline

_LISTED: Final = 60


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the heat map of one table; of the first one if none is named."""
    names = [table.name for table in pipeline.tables]
    name = request.query_params.get("table") or names[0]
    return {"names": names[:_LISTED], "name": name, "map": draw_heat(api.late_changes(pipeline, name))}


PAGE: Final = Page(path="/late", template="late.html", show=show, label="Late")
