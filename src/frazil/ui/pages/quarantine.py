"""``/quarantine``: broken rules of all tables, and the records of one table with the wrong value marked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.ui.page import Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from frazil.serve.quarantine import QuarantinedRecord
    from frazil.spec import Pipeline

_A_PAGE: Final = 25
_RULES: Final = 100


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the rules, and one page of the records of a table if one is named."""
    table, rule = request.query_params.get("table") or None, request.query_params.get("rule") or None
    after = _place(request.query_params.get("after", ""))
    found = api.quarantine(pipeline, table, limit=_A_PAGE + 1, rule=rule, after=after)
    records = found.records[:_A_PAGE]
    last = records[-1] if len(found.records) > _A_PAGE else None
    return {
        "table": table,
        "rule": rule,
        "rules": found.rules[:_RULES],
        "most": max((one.records for one in found.rules), default=1),
        "total": sum(one.records for one in found.rules),
        "records": [(one, marked(one)) for one in records],
        "is_first": after is None,
        "next": json.dumps([last.batch, last.file, last.row]) if last else None,
    }


def _place(text: str) -> tuple[int, str, int] | None:
    """Return the place of the last record of the page before; None for the first page."""
    try:
        batch, file, row = json.loads(text)
    except (ValueError, TypeError):
        return None
    is_place = isinstance(batch, int) and isinstance(file, str) and isinstance(row, int)
    return (batch, file, row) if is_place else None


def marked(record: QuarantinedRecord) -> Sequence[str]:
    """Return the text of a record in three parts: before the wrong value, the value, and after it."""
    raw = record.raw or ""
    for wrong in (_field(raw, record.column), record.reason.rpartition(": ")[2]):
        if wrong and raw.count(wrong) == 1:
            before, _, after = raw.partition(wrong)
            return before, wrong, after
    return raw, "", ""


def _field(raw: str, column: str | None) -> str:
    """Return the text of a column in a record that is written as JSON; empty if it has none."""
    try:
        values = json.loads(raw)
    except ValueError:
        return ""
    if not isinstance(values, dict) or column not in values:
        return ""
    return f"{json.dumps(column)}:{json.dumps(values[column], ensure_ascii=False)}"


PAGE: Final = Page(path="/quarantine", template="quarantine.html", show=show, label="Quarantine")
