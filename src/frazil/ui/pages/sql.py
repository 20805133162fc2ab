"""``/sql``: SQL over the lake by DuckDB; every query is an address."""

from __future__ import annotations

import tempfile
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse

from frazil import api
from frazil.errors import FrazilError
from frazil.serve.query.query import is_star, without_bookkeeping
from frazil.spec.tables import lake_tables
from frazil.ui.page import Page, number_asked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from starlette.requests import Request

    from frazil.spec import Pipeline
    from frazil.ui.page import Shown

_LIMIT: Final = 200
_MOST: Final = 5_000
_SECONDS: Final = 15
_MOST_SECONDS: Final = 120
_LISTED: Final = 60
_DOWNLOADED: Final = 1_000_000


def show(request: Request, pipeline: Pipeline) -> Shown:
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
        "tables": [made.full_name for made in lake_tables(pipeline)][:_LISTED],
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


PAGE: Final = Page(path="/sql", template="sql.html", show=show, label="SQL")
