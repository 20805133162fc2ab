"""Metrics and probes over HTTP: ``/metrics``, ``/healthz`` and ``/readyz``, without rows and secrets."""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from frazil.errors import SetupError
from frazil.interop.live import LoopProgress
from frazil.interop.observe import ObserverError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from frazil.spec import Pipeline

STUCK_SECONDS: Final = 1800.0
"""A loop that shows no progress for so long is stuck, unless the probe says otherwise."""
_LAG_SECONDS: Final = 30.0
"""So often the servers of captures are asked how far they are behind."""
_CLIENT_SECONDS: Final = 10.0


class MetricsPortError(SetupError):
    """The address of ``--metrics-port`` cannot be listened on."""

    code = "FZ916"


@contextmanager
def served(
    pipeline: Pipeline, names: Collection[str], address: tuple[str, int], tell: Callable[[str], None]
) -> Iterator[LoopProgress]:
    """Serve the numbers of a process while a block runs.

    Args:
        pipeline: the declaration.
        names: source tables that the process follows.
        address: host and port; port 0 takes a free one.
        tell: called with the address.

    Raises:
        MetricsPortError: the port is in use, or the host is not of this machine.
        ObserverError: prometheus-client is not installed.
    """
    try:
        from frazil.interop.metrics import metrics_text  # noqa: PLC0415 - imported only when it is wanted
    except ModuleNotFoundError as error:
        raise ObserverError(f"--metrics-port needs {error.name}", hint="pip install 'frazil[observe]'") from error
    progress, stop = LoopProgress(pipeline.pipeline), Event()
    handler = type("Handler", (_Handler,), {"progress": progress, "metrics": staticmethod(metrics_text)})
    host, port = address
    server = type("Server", (_Server,), {"address_family": socket.AF_INET6 if ":" in host else socket.AF_INET})
    try:
        listening = server((host, port), handler)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or f"{error}"
        hint = "--metrics-port 0 takes a free port; --metrics-host names an address of this machine"
        raise MetricsPortError(f"cannot listen on {host}:{port}: {why}", hint=hint) from error
    with listening:
        threads = [Thread(target=listening.serve_forever, args=(0.1,), daemon=True)]
        threads.append(Thread(target=_measure, args=(pipeline, names, progress, stop), daemon=True))
        for thread in threads:
            thread.start()
        shown = f"[{host}]" if ":" in host else host
        tell(f"metrics at http://{shown}:{listening.server_address[1]}/metrics")
        try:
            yield progress
        finally:
            stop.set()
            listening.shutdown()


def _measure(pipeline: Pipeline, names: Collection[str], progress: LoopProgress, stop: Event) -> None:
    from frazil.serve.checks import last_checks  # noqa: PLC0415 - PyArrow comes with it
    from frazil.serve.lag import Lags  # noqa: PLC0415

    while not stop.is_set():
        with suppress(Exception):
            progress.checked(last_checks(pipeline))
        with suppress(Exception):
            progress.measured(Lags(pipeline, names).all())
        stop.wait(_LAG_SECONDS)


class _Server(ThreadingTCPServer):
    """A server without a look-up of names, which the one of ``http.server`` makes."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


class _Handler(BaseHTTPRequestHandler):
    """Answers only GET, and only of the three paths."""

    timeout = _CLIENT_SECONDS
    progress: LoopProgress
    metrics: Callable[[LoopProgress], tuple[bytes, str]]

    def do_GET(self) -> None:
        """Answer one request."""
        asked = urlsplit(self.path)
        match asked.path:
            case "/metrics":
                self._answer(HTTPStatus.OK, *type(self).metrics(self.progress))
            case "/healthz":
                silent, limit = self.progress.silent_seconds, _seconds(asked.query)
                text = f"last sign of progress {silent:.0f} s ago, limit {limit:.0f} s\n"
                self._say(text, is_well=silent <= limit)
            case "/readyz":
                seen = self.progress.seen
                is_well = seen.good_at is not None and not seen.failing
                failing = f"failing: {', '.join(seen.failing)}\n" if seen.failing else "no round has ended yet\n"
                self._say("ready\n" if is_well else failing, is_well=is_well)
            case _:
                self._answer(HTTPStatus.NOT_FOUND, b"/metrics, /healthz, /readyz\n")

    def _say(self, text: str, *, is_well: bool) -> None:
        self._answer(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE, text.encode())

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", f"{len(body)}")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        with suppress(OSError):  # the client went away
            self.wfile.write(body)

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "frazil"

    def log_message(self, *_: Any) -> None:
        """Write no line for each probe."""


def _seconds(query: str) -> float:
    """Return the limit that a probe asks by: ``/healthz?seconds=7200``."""
    try:
        return max(0.0, float(parse_qs(query)["seconds"][0]))
    except (KeyError, ValueError):
        return STUCK_SECONDS
