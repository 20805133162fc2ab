"""``/tables/<table>``: one source table with its marts, batches, columns, rules and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.serve.query.plain import plain
from frazil.spec.sql.references import marts_of
from frazil.spec.sql.select import source_table
from frazil.spec.tables import source_tables
from frazil.ui.page import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from frazil.serve.overview import MadeOverview
    from frazil.spec import Pipeline, Table
    from frazil.spec.tables import LakeTable

_ROWS: Final = 25
_SECONDS: Final = 20.0


def show(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return all that one table has, and the rows of one of its marts."""
    declared = source_table(pipeline, request.path_params["table"])
    own = source_tables(pipeline, declared)
    found = api.overview(pipeline, [declared.name])
    (state,) = found.tables
    made = next((made for made in own.marts if made.name == request.query_params.get("mart")), own.marts[0])
    stands: Mapping[str, MadeOverview] = {one.name: one for one in state.marts}
    asks_source = request.query_params.get("source") == "1"
    return {
        "table": declared,
        "columns": {column.name: column for column in declared.columns or ()},
        "state": state,
        "marts": [(one, stands[one.full_name]) for one in own.marts],
        "batches": api.batches(pipeline, declared.name),
        "schema": api.schema(pipeline, declared.name) if state.batch else None,
        "sample": _sample(request, pipeline, declared, made) if stands[made.full_name].exists else None,
        "mart": made,
        "waiting": api.status(pipeline, select=[declared.name]).tables[0] if asks_source else None,
        "readers": [
            gold.name for gold in pipeline.gold if {*marts_of(pipeline, gold)} & {made.name for made in own.marts}
        ],
        "live": found.open_run is not None and found.open_run.is_running,
    }


def _sample(request: Request, pipeline: Pipeline, table: Table, made: LakeTable) -> dict[str, Any]:
    """Return one page of a mart's rows, each with the text of its key."""
    place = request.query_params.get("after")
    stop = request.state.stop = api.Stop(_SECONDS)
    found = api.rows(pipeline, made.name, after=place, limit=_ROWS, stop=stop)
    where = [found.columns.index(name) for name in table.keys]
    return {
        "columns": found.columns,
        "types": dict(zip(found.columns, found.types, strict=True)),
        "rows": [(row, [shown_key(row[at]) for at in where]) for row in found.rows],
        "pii": {column.name for column in table.columns or () if column.pii is not None},
        "key_names": {*table.keys},
        "is_first": place is None,
        "next": found.next,
    }


def shown_key(value: Any) -> str:
    """Return the text of a key's value, in the form in which ``frazil key`` reads it."""
    return f"{plain(value)}"


PAGE: Final = Page(path="/tables/{table}", template="table.html", show=show)
