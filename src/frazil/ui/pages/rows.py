"""Pages of rows: the story of one key, records in ``/quarantine``, and ``/sql`` over the lake."""

from __future__ import annotations

import json
import tempfile
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse

from frazil import api
from frazil.errors import FrazilError
from frazil.serve.query.query import is_star, without_bookkeeping
from frazil.spec import Current
from frazil.spec.sql.select import source_table
from frazil.spec.sql.sql import marts_of
from frazil.spec.tables import lake_tables, source_tables
from frazil.ui.draw.square import draw_square
from frazil.ui.draw.timeline import ADDED, draw_timeline, mart_kind
from frazil.ui.pages import Page, number_asked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from starlette.requests import Request

    from frazil.serve.quarantine import QuarantinedRecord
    from frazil.spec import Pipeline, Table
    from frazil.ui.pages import Shown


_LISTED: Final = 200


def show_key(request: Request, pipeline: Pipeline) -> dict[str, Any]:
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


KEY: Final = Page(path="/tables/{table}/keys", template="key.html", show=show_key)


_A_PAGE: Final = 25
_RULES: Final = 100


def show_quarantine(request: Request, pipeline: Pipeline) -> dict[str, Any]:
    """Return the rules, and one page of the records of a table if one is named."""
    table, rule = request.query_params.get("table") or None, request.query_params.get("rule") or None
    after = _place(request.query_params.get("after", ""))
    found = api.quarantine(pipeline, table, limit=_A_PAGE + 1, rule=rule, after=after)
    records = found.records[:_A_PAGE]
    last = records[-1] if len(found.records) > _A_PAGE else None
    replays = request.app.state.replays
    replay = replays.last if replays is not None else None
    return {
        "replay": replay,
        "live": replay is not None and replay.exit_code is None,
        "table": table,
        "rule": rule,
        "rules": found.rules[:_RULES],
        "retyped": found.retyped,
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


QUARANTINE: Final = Page(path="/quarantine", template="quarantine.html", show=show_quarantine, label="Quarantine")


_LIMIT: Final = 200
_MOST: Final = 5_000
_SECONDS: Final = 15
_MOST_SECONDS: Final = 120
_LISTED_NAMES: Final = 60
_DOWNLOADED: Final = 1_000_000


def show_sql(request: Request, pipeline: Pipeline) -> Shown:
    """Return the result of the query in the address, or its download as CSV."""
    asked = request.query_params
    sql, as_of = asked.get("q", "").strip(), asked.get("as_of", "").strip() or None
    if sql and asked.get("form") == "csv":
        return _csv(pipeline, sql, as_of)
    limit = number_asked(request, "limit", _LIMIT, _MOST)
    seconds = number_asked(request, "seconds", _SECONDS, _MOST_SECONDS)
    values: dict[str, Any] = {
        "sql": sql,
        "as_of": as_of,
        "limit": limit,
        "seconds": seconds,
        "result": None,
        "is_more": False,
        "trouble": None,
        "tables": [made.full_name for made in lake_tables(pipeline)][:_LISTED_NAMES],
    }
    if sql:
        stop = api.Stop(float(max(1, seconds)))
        request.state.stop = stop
        try:
            found = api.query(pipeline, sql, limit=limit + 1, as_of=as_of, stop=stop)
            found = without_bookkeeping(found) if is_star(sql) else found
            values |= {"result": found, "rows": found.rows[:limit], "is_more": len(found.rows) > limit}
        except FrazilError as error:
            values["trouble"] = error
    return values


def _csv(pipeline: Pipeline, sql: str, as_of: str | None) -> StreamingResponse:
    """Return the whole result as CSV, whose formulas are guarded; an error of the query is the page of errors."""
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the answer closes it
    text = TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        api.write_csv(pipeline, sql, text, limit=_DOWNLOADED, as_of=as_of, is_guarded=True)
        text.flush()
    except BaseException:
        text.close()
        raise
    file.seek(0)
    headers = {"Content-Disposition": 'attachment; filename="frazil.csv"'}
    return StreamingResponse(
        _parts(file), media_type="text/csv", headers=headers, background=BackgroundTask(text.close)
    )


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    while some := file.read(1 << 16):
        yield some


SQL: Final = Page(path="/sql", template="sql.html", show=show_sql, label="SQL")
