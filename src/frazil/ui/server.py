"""The server of the page: one process on 127.0.0.1, stopped by Ctrl-C."""

from __future__ import annotations

import socket
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from frazil.errors import SetupError
from frazil.ui.app import Project, Replays, create_app
from frazil.ui.guard import Access, local_hosts

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from frazil.api.declaring import Declaration


class PageError(SetupError):
    """The page cannot be served: its port is in use, or the address is not of this machine."""

    code = "FZ913"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServer:
    """A server that listens already.

    Attributes:
        access: its secrets.
        server: serves with :meth:`serve`, until its ``should_exit`` is true.
        listening: the socket.
        address: address without a token, such as ``http://127.0.0.1:8321/``.
        pipeline: name of the pipeline that it shows.
        replays: replays that its pages start.
    """

    access: Access
    server: uvicorn.Server
    listening: socket.socket
    address: str
    pipeline: str
    replays: Replays

    @property
    def link(self) -> str:
        """The address that opens one browser."""
        return self.link_of(self.access.token)

    def link_of(self, token: str) -> str:
        """Return the address with a token."""
        return f"{self.address}?token={token}"

    def serve(self) -> None:
        """Answer requests until :meth:`stop`; a replay that is then at work is ended."""
        try:
            self.server.run(sockets=[self.listening])
        finally:
            self.replays.stop()

    def stop(self) -> None:
        """End :meth:`serve`; requests that are being answered have two seconds."""
        self.server.should_exit = True


def page_server(
    declaration: Declaration,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow_writes: bool = False,
    docs: Path | None = None,
    renewed: Callable[[str], object] = lambda _: None,
) -> PageServer:
    """Return a server of the page of a lake, which listens but does not answer yet.

    Args:
        declaration: a pipeline, or the path of its declaration.
        host: address to listen on.
        port: port to listen on; 0 for a free one.
        allow_writes: whether pages may change something; the declaration is then a path.
        docs: folder of the documentation's site, from :func:`docs_folder`.
        renewed: receives a new link each time one was used.

    Raises:
        DeclarationError: the declaration is missing or has mistakes.
        PageError: the port is in use, or the host is not of this machine.
    """
    project = Project(declaration)
    pipeline = project.pipeline().pipeline  # read here, so that the first page need not wait for it
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)  # a browser that is quicker than the server waits
    except (OSError, OverflowError) as error:
        listening.close()
        raise PageError(
            f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}",
            hint="--port 0 takes a free one",
        ) from None
    taken = int(listening.getsockname()[1])
    named = f"[{host}]" if ":" in host else host
    address = f"http://{named}:{taken}/"
    access = Access(
        port=taken,
        hosts=local_hosts(host, taken),
        allow_writes=allow_writes,
        renewed=lambda token: renewed(f"{address}?token={token}"),
    )
    settings: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "lifespan": "off"}
    replays = Replays(declaration)
    app = create_app(project, access, replays, docs=docs)
    server = _Server(uvicorn.Config(app, timeout_graceful_shutdown=2, **settings))
    return PageServer(
        access=access, server=server, listening=listening, address=address, pipeline=pipeline, replays=replays
    )


def docs_folder() -> Path | None:
    """Return the folder of the documentation's site; None without the package ``frazil-docs``."""
    try:
        from frazil_docs import SITE  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        return None
    return Path(SITE)


class _Server(uvicorn.Server):
    """Leaves signals to the command, which handles them for all commands."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Capture none."""
        return nullcontext()
