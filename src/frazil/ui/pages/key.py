"""``/tables/<table>/keys?k=…``: everything that the lake holds of one key, on one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.spec import Current
from frazil.spec.sql.references import marts_of
from frazil.spec.sql.select import source_table
from frazil.spec.tables import source_tables
from frazil.ui.draw.square import draw_square
from frazil.ui.draw.timeline import draw_timeline, mart_kind
from frazil.ui.draw.versions import ADDED
from frazil.ui.page import Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from frazil.spec import Pipeline, Table

_LISTED: Final = 200


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the story of a key with its drawings."""
    table = source_table(pipeline, request.path_params["table"])
    texts = request.query_params.getlist("k")
    story = api.key(pipeline, table.name, texts)
    pii = {column.name for column in table.columns or () if column.pii is not None}
    own = source_tables(pipeline, table)
    kinds, squared = {}, None
    for made in own.marts:
        if isinstance(made.mart, Current):
            kinds[made.full_name] = mart_kind("current", made.mart.deletes, bitemporal=False)
        elif made.mart is not None:
            kinds[made.full_name] = mart_kind("history", made.mart.deletes, bitemporal=made.mart.bitemporal)
            squared = made.full_name if made.mart.bitemporal else squared
    hidden = {*table.keys, *table.sequence_by, *pii}
    rows = story.marts.get(squared or "", ())
    point = request.query_params.get("valid", ""), request.query_params.get("known", "")
    return {
        "table": table,
        "texts": texts,
        "story": story,
        "drawing": draw_timeline(story, kinds, _readers(pipeline, table), hidden),
        "square": draw_square(rows, *point, hidden) if rows else None,
        "squared": squared,
        "pii": pii,
        "fields": _first(name for change in story.changes for name in change.values),
        "changes": story.changes[-_LISTED:],
        "raw_fields": _first(name for record in story.records for name in record.fields),
        "records": story.records[-_LISTED:],
        "added": ADDED,
        "raw_hidden": {name.lower() for name in pii},
    }


def _readers(pipeline: Pipeline, table: Table) -> list[tuple[str, str]]:
    """Return the aggregates that read a mart of the table, each with the mart."""
    spaces = pipeline.lake.namespaces
    marts = [table.mart_name(mart) for mart in table.marts]
    return [
        (f"{spaces.gold}.{gold.name}", f"{spaces.marts}.{mart}")
        for gold in pipeline.gold
        for mart in marts_of(pipeline, gold)
        if mart in marts
    ]


def _first(names: Any) -> Sequence[str]:
    return [*dict.fromkeys(names)]


PAGE: Final = Page(path="/tables/{table}/keys", template="key.html", show=show)
