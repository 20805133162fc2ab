"""The application: its pages, its files, its errors, and the replays of corrected records that it starts."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import hmac
import json
import subprocess
import sys
import traceback
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from frazil import api
from frazil.catalog.trouble import translate_error
from frazil.errors import DeclarationError, FrazilError, StorageError
from frazil.spec.amount import sized
from frazil.ui import text
from frazil.ui.guard import DOCS, Guard
from frazil.ui.pages import address
from frazil.ui.pages.corrections import CORRECT
from frazil.ui.pages.lake import OVERVIEW, PLAN, PROOFS, RUN, RUNS
from frazil.ui.pages.rows import KEY, QUARANTINE, SQL
from frazil.ui.pages.tables import DIFF, LATE, LINEAGE, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from starlette.requests import Request

    from frazil.api.declaring import Declaration
    from frazil.host import Scratch
    from frazil.spec import Pipeline
    from frazil.ui.guard import Access
    from frazil.ui.pages import Page


PAGES: Final = (
    OVERVIEW,
    TABLE,
    KEY,
    PLAN,
    RUNS,
    RUN,
    QUARANTINE,
    CORRECT,
    LATE,
    PROOFS,
    LINEAGE,
    DIFF,
    SQL,
)
"""The pages, in the order of the navigation."""
_HERE: Final = Path(__file__).parent
_STATIC: Final = _HERE / "static"
_MOST_BYTES: Final = 4 * 1024 * 1024
_LOOK_SECONDS: Final = 0.3
"""How often a slow page looks whether its browser still waits for it."""


@dataclass(slots=True)
class Project:
    """A declaration, read again when its file has changed."""

    declaration: Declaration
    _read: tuple[tuple[int, int], Pipeline] | None = field(default=None, init=False)

    def pipeline(self) -> Pipeline:
        """Return the pipeline.

        Raises:
            DeclarationError: the file is missing or has mistakes.
        """
        if not isinstance(self.declaration, str | Path):
            return self.declaration
        path = Path(self.declaration)
        file = path / "frazil.yml" if path.is_dir() else path
        try:
            seen = (file.stat().st_mtime_ns, file.stat().st_size)
        except OSError:
            return api.load(self.declaration)  # its own error says what is missing
        if self._read is None or self._read[0] != seen:
            self._read = (seen, api.load(self.declaration))
        return self._read[1]


def create_app(
    project: Project,
    access: Access,
    replays: Replays | None = None,
    *,
    docs: Path | None = None,
) -> Guard:
    """Return the application that shows the lake of a declaration.

    Args:
        project: the declaration.
        access: who may ask.
        replays: starts replays; needed if ``access`` allows writes.
        docs: folder of the documentation's site; None if it is not installed.
    """
    templates = _environment()
    templates.globals |= {"docs": DOCS if docs else None, "writes": access.allow_writes, "form_token": access.form}
    app = Starlette(
        routes=[
            *(Route(page.path, _answer(page, project, templates), methods=_methods(page)) for page in PAGES),
            Mount("/static", StaticFiles(directory=_STATIC)),
            *([Mount(DOCS.rstrip("/"), StaticFiles(directory=docs, html=True))] if docs else []),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=1_000)],
        exception_handlers={HTTPException: _missing(project, templates)},
    )
    app.state.access, app.state.replays = access, replays
    return Guard(app, access)


def _methods(page: Page) -> list[str]:
    return ["GET", "POST"] if page.writes else ["GET"]


def _answer(page: Page, project: Project, templates: Environment) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        if page.writes:
            request.state.form = await _form(request)
        shown = asyncio.create_task(run_in_threadpool(_shown, page, request, project, templates))
        while not (await asyncio.wait([shown], timeout=_LOOK_SECONDS))[0]:
            if await request.is_disconnected() and (stop := getattr(request.state, "stop", None)):
                stop.cancel()
        return shown.result()

    return answer


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form of this page; none for GET.

    Raises:
        HTTPException: the server only reads, the form is too large, or a page of this server did not make it.
    """
    access = request.app.state.access
    if not access.allow_writes:
        raise HTTPException(HTTPStatus.FORBIDDEN, "This server only reads: start it with --allow-writes")
    if request.method != "POST":
        return {}
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A form holds at most {sized(_MOST_BYTES)}")
    fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    if not hmac.compare_digest(fields.pop("token", "").encode(), access.form.encode()):
        raise HTTPException(HTTPStatus.FORBIDDEN, "This form is not of this server: open its page again")
    return fields


def _shown(page: Page, request: Request, project: Project, templates: Environment) -> Response:
    pipeline: Pipeline | None = None
    try:
        pipeline = project.pipeline()
        found = page.show(request, pipeline)
        if isinstance(found, Response):
            return found
        return _page(templates, page.template, request, pipeline, found)
    except HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - the page of errors is the last resort of every page
        return _error(templates, request, pipeline, error)


def _page(
    templates: Environment, template: str, request: Request, pipeline: Pipeline | None, values: dict[str, Any]
) -> HTMLResponse:
    shared = {
        "path": request.url.path,
        "query": dict(request.query_params),
        "pipeline": pipeline,
        "pages": [page for page in PAGES if page.label],
    }
    return HTMLResponse(templates.get_template(template).render({**shared, **values}))


def _error(templates: Environment, request: Request, pipeline: Pipeline | None, error: Exception) -> HTMLResponse:
    known = error if isinstance(error, FrazilError) else translate_error(error, pipeline) if pipeline else None
    if known is None:
        sys.stderr.write("".join(traceback.format_exception(error)))
        hint = "frazil ui has written the stack to its terminal: please report it"
        known = FrazilError(f"a bug in Frazil: {type(error).__name__}", hint=hint)
    values = {"code": known.code, "message": known.message, "hint": known.hint, "again": known.retryable}
    answer = _page(templates, "error.html", request, pipeline, values)
    answer.status_code = _status(known)
    return answer


def _status(error: FrazilError) -> int:
    if error.code == "FZ103":  # no table of that name
        return HTTPStatus.NOT_FOUND
    return (
        HTTPStatus.BAD_REQUEST
        if isinstance(error, DeclarationError)
        else HTTPStatus.SERVICE_UNAVAILABLE
        if isinstance(error, StorageError)
        else 500
    )


def _missing(project: Project, templates: Environment) -> Callable[[Request, Exception], Response]:
    """Return the handler of addresses without a page."""

    def answer(request: Request, error: Exception) -> Response:
        status, message = HTTPStatus.NOT_FOUND, f"There is no page {request.url.path}"
        if isinstance(error, HTTPException) and error.status_code != status:
            status, message = HTTPStatus(error.status_code), error.detail
        try:
            pipeline = project.pipeline()
        except FrazilError:
            pipeline = None
        values = {"code": f"{status:d}", "message": message, "hint": None, "again": False}
        found = _page(templates, "error.html", request, pipeline, values)
        found.status_code = status
        return found

    return answer


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=text.finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "age": lambda value: text.age(value, dt.datetime.now(dt.UTC)),
        "moment": text.moment,
        "type": text.type_text,
        "value": text.value_text,
        "whole": text.whole,
        "size": sized,
        "typed": text.as_typed,
        "part": lambda value: quote(value, safe=""),
        "json": lambda value: Markup(json.dumps(value).replace("<", "\\u003c")),  # noqa: S704 - in an element of data
    }
    made.tests["number"] = text.is_number
    made.globals |= {"address": address, "key_address": key_address, "static": _static_address(), "zip": zip}
    return made


def key_address(table: str, key: Sequence[str], **parameters: str) -> str:
    """Return the address of a key's story."""
    given = [*(("k", text) for text in key), *parameters.items()]
    return f"/tables/{quote(table, safe='')}/keys?{urlencode(given)}"


def _static_address() -> Callable[[str], str]:
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in _STATIC.iterdir()}

    def static(name: str | PathLike[str]) -> str:
        return f"/static/{name}?v={files[f'{name}']}"

    return static


@dataclass(slots=True, kw_only=True)
class Replay:
    """A replay of a table's corrected records.

    Attributes:
        table: the source table.
        records: number of corrections.
        exit_code: None while it is at work.
        run: id of its run; None without a run.
        errors: what went wrong: ``code``, ``message`` and ``hint`` of each error.
    """

    table: str
    records: int
    exit_code: int | None = None
    run: str | None = None
    errors: tuple[dict[str, Any], ...] = ()


@dataclass(slots=True)
class Replays:
    """The replays of one server.

    Attributes:
        project: path of the declaration.
        last: the newest replay, or None.
    """

    project: Declaration
    last: Replay | None = field(default=None, init=False)
    _process: subprocess.Popen[str] | None = field(default=None, init=False)
    _follower: Thread | None = field(default=None, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def start(self, table: str, file: Path, records: int, held: Scratch) -> bool:
        """Start a replay; False if another one is at work.

        Args:
            table: the source table.
            file: its corrections.
            records: number of corrections.
            held: folder of the file, removed when the replay ends.
        """
        words = ["replay", "--project", f"{self.project}", "--select", table, "--from", f"{file}", "--yes", "--json"]
        with self._lock:
            if self.last is not None and self.last.exit_code is None:
                return False
            self._process = subprocess.Popen(
                [sys.executable, "-m", "frazil", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            )
            self.last = Replay(table=table, records=records)
            self._follower = Thread(target=_follow, args=(self._process, self.last, held))
            self._follower.start()
            return True

    def stop(self) -> None:
        """End a replay that is at work. Corrections that are in bronze already are applied by the next run."""
        if self._process is not None:
            self._process.terminate()
        if self._follower is not None:
            self._follower.join()


def _follow(process: subprocess.Popen[str], replay: Replay, held: Scratch) -> None:
    """Wait for the end of a replay, and note it."""
    said, _ = process.communicate()
    held.remove()
    try:
        values = json.loads(said)
    except ValueError:
        values = {}
    replay.run = values.get("run_id")
    replay.errors = tuple(values.get("errors", [values["error"]] if "error" in values else ()))
    replay.exit_code = process.returncode
