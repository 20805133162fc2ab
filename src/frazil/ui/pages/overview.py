"""``/``: every table, with its freshness, its last results and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.ui.page import Page, number_asked

if TYPE_CHECKING:
    from starlette.requests import Request

    from frazil.serve.overview import TableOverview
    from frazil.spec import Pipeline

_A_PAGE: Final = 50
_COUNTED: Final = 300
"""Lakes with more tables show no sums: they would need the metadata of every table."""


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the tables of one page, and sums over all tables of a small lake."""
    words = request.query_params.get("q", "").lower().split()
    names = [name for name, text in _names(pipeline) if all(word in text for word in words)]
    is_small = len(names) <= _COUNTED
    page = number_asked(request, "page", 0, len(names) // _A_PAGE)
    begin = page * _A_PAGE
    chosen = names[begin : begin + _A_PAGE]
    found = api.overview(pipeline, names if is_small else chosen)
    rows = list(found.tables)
    sums = _sums(rows) if is_small else None
    return {
        "tables": [row for row in rows if row.table in {*chosen}],
        "found": len(names),
        "begin": begin,
        "page": page,
        "is_last": begin + _A_PAGE >= len(names),
        "sums": sums,
        "exists": found.exists,
        "open_run": found.open_run,
        "live": found.open_run is not None and found.open_run.is_running,
        "keys": {table.name: table.keys for table in pipeline.tables},
    }


def _names(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return each table and aggregate, with the text to search in."""
    tables = [
        (table.name, " ".join([table.name, *map(table.mart_name, table.marts)]).lower()) for table in pipeline.tables
    ]
    return tables + [(f"gold.{gold.name}", f"gold.{gold.name}".lower()) for gold in pipeline.gold]


def _sums(rows: list[TableOverview]) -> dict[str, Any]:
    newest = [row.committed_at for row in rows if row.committed_at is not None]
    return {
        "newest": max(newest, default=None),
        "failed": sum(bool(row.results and row.results[0].error) or row.trouble is not None for row in rows),
        "behind": sum(any(mart.lag for mart in row.marts) for row in rows),
        "quarantined": sum(row.quarantined for row in rows),
        "changes": sum(row.changes for row in rows),
        "size_bytes": sum(mart.size_bytes for row in rows for mart in row.marts),
    }


PAGE: Final = Page(path="/", template="overview.html", show=show, label="Tables")
