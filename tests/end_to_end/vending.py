"""A REST catalog that hands out a login for each table: a proxy before one that does not."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def vending(port: int, login: Mapping[str, str]) -> Iterator[str]:
    """Run the proxy while the block runs; gives its address.

    Args:
        port: of the catalog, on this machine.
        login: Iceberg's properties that come with each table, for clients that ask for them.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            behind = http.client.HTTPConnection("127.0.0.1", port)
            kept = {"host", "connection", "accept-encoding", "content-length"}
            headers = {name: text for name, text in self.headers.items() if name.lower() not in kept}
            behind.request(self.command, self.path, body or None, headers)
            given = behind.getresponse()
            found = given.read()
            if self.headers.get("X-Iceberg-Access-Delegation") == "vended-credentials":
                found = with_login(found)
            self.send_response(given.status)
            self.send_header("Content-Type", given.getheader("Content-Type") or "application/json")
            # A HEAD, and an answer without content, has no body.
            self.send_header("Content-Length", f"{len(found)}")
            self.end_headers()
            self.wfile.write(found)
            behind.close()

        do_GET = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

    def with_login(body: bytes) -> bytes:
        try:
            said: Any = json.loads(body)
        except ValueError:
            return body
        if not isinstance(said, dict) or "metadata" not in said:
            return body
        return json.dumps(said | {"config": {**(said.get("config") or {}), **login}}).encode()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
