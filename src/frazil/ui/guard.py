"""Access to the page: exact hosts, a token once, a cookie after it, and no other origin."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # "no-referrer" would take the origin from a form of this page
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of every answer."""
DOCS: Final = "/docs/"
"""Where the documentation is."""
DOCS_POLICY: Final = (
    HEADERS["Content-Security-Policy"]
    .partition("; require-trusted-types-for")[0]
    .replace("img-src 'self'", "img-src 'self' data:")
)
"""The policy of the documentation: its search writes HTML, its style sheet contains images. Inline code is refused."""
_READING: Final = {"GET", "HEAD"}
_NO_COOKIE: Final = (
    "This page needs the link that frazil ui printed in its terminal. "
    "A link opens one browser; the terminal shows a new one after each use.\n"
)


@dataclass(slots=True, kw_only=True)
class Access:
    """The secrets of one server.

    Attributes:
        port: its port; cookies do not know ports, so its name has it.
        hosts: values of the Host header that are answered.
        allow_writes: whether the page's own forms may change something.
        renewed: receives each new token, as the old one is used up.
        token: opens one browser.
        session: value of the cookie.
        form: value that the forms of the page send back; no other site can read it.
    """

    port: int
    hosts: frozenset[str]
    allow_writes: bool = False
    renewed: Callable[[str], object] = lambda _: None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie(self) -> str:
        """Name of the cookie."""
        return f"frazil_{self.port}"

    def take(self, token: str) -> bool:
        """Use up the token; False if it is another one."""
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return False
        self.token = secrets.token_urlsafe(32)
        self.renewed(self.token)
        return True

    def knows(self, headers: Headers) -> bool:
        """Whether a request has the cookie."""
        found = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return hmac.compare_digest(found.encode(), self.session.encode())


def local_hosts(host: str, port: int) -> frozenset[str]:
    """Return the Host headers of a server's own addresses."""
    named = f"[{host}]" if ":" in host else host
    return frozenset(f"{name}:{port}" for name in (named, "localhost", "127.0.0.1"))


def _refusal(text: str, status: HTTPStatus) -> Response:
    return PlainTextResponse(text, status)


class Guard:
    """Answers only what :class:`Access` allows, and puts :data:`HEADERS` on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if scope["path"].startswith(DOCS):
                    headers["Content-Security-Policy"] = DOCS_POLICY
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refused(scope) or self._app
        await answer(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """Return the answer to a request that may not be answered by the page; None if it may."""
        headers, access = Headers(scope=scope), self._access
        if headers.getlist("host") not in [[host] for host in access.hosts]:
            return _refusal("This server answers only under its own address.\n", HTTPStatus.MISDIRECTED_REQUEST)
        if scope["method"] not in _READING and (answer := self._unwritable(headers, scope["method"])):
            return answer
        if scope["path"].startswith("/static/"):
            return None
        return self._opened(scope) or self._stranger(headers)

    def _stranger(self, headers: Headers) -> Response | None:
        if not self._access.knows(headers):
            return _refusal(_NO_COOKIE, HTTPStatus.FORBIDDEN)
        if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            return _refusal("This server answers no other site.\n", HTTPStatus.FORBIDDEN)
        return None

    def _opened(self, scope: Scope) -> Response | None:
        """Return the answer that gives a browser its cookie, if the request has the token."""
        access = self._access
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = dict(query).get("token")
        if token is None or scope["method"] != "GET" or not access.take(token):
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash in front: "//host" would leave this server.
        place = quote("/" + scope["path"].lstrip("/\\"))
        redirect = RedirectResponse(f"{place}?{rest}" if rest else place, HTTPStatus.SEE_OTHER)
        redirect.set_cookie(access.cookie, access.session, httponly=True, samesite="strict", path="/")
        return redirect

    def _unwritable(self, headers: Headers, method: str) -> Response | None:
        """Return the answer to a request that would write and may not."""
        if method != "POST":
            return _refusal("This server takes no such request.\n", HTTPStatus.METHOD_NOT_ALLOWED)
        if not self._access.allow_writes:
            return _refusal("This server only reads: start it with --allow-writes.\n", HTTPStatus.FORBIDDEN)
        here = f"http://{headers['host']}"
        if headers.get("sec-fetch-site") != "same-origin" or headers.getlist("origin") != [here]:
            return _refusal("Only a form of this page may change something.\n", HTTPStatus.FORBIDDEN)
        return None
