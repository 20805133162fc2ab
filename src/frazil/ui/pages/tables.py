"""Pages of one table: ``/tables/<table>``, its ``/lineage``, ``/late`` changes, and the ``/diff`` of two points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil import api
from frazil.errors import FrazilError
from frazil.serve.query.plain import plain
from frazil.spec.sql.select import source_table
from frazil.spec.sql.sql import marts_of
from frazil.spec.tables import source_tables
from frazil.ui.draw.charts import HEIGHT, WIDTH, draw_heat, layered
from frazil.ui.pages import Page, number_asked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from frazil.serve.overview import MadeOverview
    from frazil.serve.query.diff import Diff
    from frazil.spec import Pipeline, Table
    from frazil.spec.tables import LakeTable


_ROWS: Final = 25
_SECONDS: Final = 20.0


def show_table(request: Request, pipeline: Pipeline) -> dict[str, Any]:
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
        "spark_runs": [("changes", state.spark_runs), *((one.name, one.spark_runs) for one in state.marts)],
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


TABLE: Final = Page(path="/tables/{table}", template="table.html", show=show_table)


_NODES: Final = 200
"""Nodes of a drawing; larger ones would be read by nobody."""


def show_lineage(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the lineage around one table; the first one if none is asked for."""
    asked = request.query_params.get("table") or pipeline.tables[0].name
    found = api.lineage(pipeline, asked)
    nodes = found.nodes[:_NODES]
    return {
        "names": [*(table.name for table in pipeline.tables), *(f"gold.{gold.name}" for gold in pipeline.gold)][
            :_NODES
        ],
        "focus": next(node for node in found.nodes if node.name == found.table),
        "roles": {node.name: node.role for node in nodes},
        "drawing": layered({node.name: node.made_of for node in nodes}),
        "left_out": len(found.nodes) - len(nodes),
        "box": (WIDTH, HEIGHT),
    }


LINEAGE: Final = Page(path="/lineage", template="lineage.html", show=show_lineage, label="Lineage")


_LISTED: Final = 60


def show_late(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the heat map of one table; of the first one if none is named."""
    names = [table.name for table in pipeline.tables]
    name = request.query_params.get("table") or names[0]
    return {"names": names[:_LISTED], "name": name, "map": draw_heat(api.late_changes(pipeline, name))}


LATE: Final = Page(path="/late", template="late.html", show=show_late, label="Arrival")


_CHANGED_ROWS: Final = 200
_MOST_CHANGED: Final = 2_000


def show_diff(request: Request, pipeline: Pipeline) -> dict[str, Any]:
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
            limit = max(1, number_asked(request, "limit", _CHANGED_ROWS, _MOST_CHANGED))
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


DIFF: Final = Page(path="/diff", template="diff.html", show=show_diff, label="Diff")
