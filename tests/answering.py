"""Servers of the tests' own, in this process: they answer as another program would."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import ThreadingHTTPServer

Server = TypeVar("Server", bound="ThreadingHTTPServer")


class Quiet:
    """Part of a handler: answers without a line on standard error."""

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def answering(server: Server) -> Iterator[Server]:
    """Have a server answer while a block runs."""
    # The end of the block waits until the server looks: by default, twice a second.
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    with server:
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address_of(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"
