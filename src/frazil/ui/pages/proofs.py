"""``/proofs``: prove the laws on the tables, while one waits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from frazil.serve.check.check import check
from frazil.ui.page import Page

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.spec import Pipeline

_LISTED: Final = 60


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the findings for the table that the address names; without one only the choice of tables."""
    names = [table.name for table in pipeline.tables]
    name = request.query_params.get("table", "")
    # The command sends messages to those who asked for them; looking does not.
    found = check(pipeline, select=[name]) if name else []
    return {
        "names": names[:_LISTED],
        "name": name,
        "findings": sorted(found, key=lambda one: (one.ok is True, one.ok is None)),
        "counts": Counter(one.ok for one in found),
    }


PAGE: Final = Page(path="/proofs", template="proofs.html", show=show, label="Proofs")
