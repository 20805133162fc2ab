"""A process that follows a source answers real requests: metrics, whether it is alive, and whether it is ready."""

from __future__ import annotations

import socket
import sys
from functools import partial
from http.client import HTTPConnection
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.hostile.situation import command

from frazil import api
from frazil.errors import Failure, SourceError, StorageError
from frazil.interop.live_server import MetricsPortError, served
from frazil.interop.observe import ObserverError
from frazil.runner.options import CaptureOptions, WatchOptions
from frazil.runner.report import RunReport, TableReport
from frazil.serve.lag import CaptureLag
from frazil.sources.capture import Landed
from frazil.spec import DmsFiles, Lake, Pipeline, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from frazil.interop.live import LoopProgress


class Client:
    """Asks a process that is followed, at the address that it said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @property
    def port(self) -> int:
        return int(self.said[0].removesuffix("/metrics").rpartition(":")[2])

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            assert "Python" not in f"{answer.headers}"
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metrics(self) -> dict[tuple[str, ...], float]:
        """Return each sample by its name and its labels, without that of the pipeline."""
        status, text = self.get("/metrics")
        assert status == 200
        return {
            (one.name, *(value for label, value in one.labels.items() if label != "pipeline")): one.value
            for family in text_string_to_metric_families(text)
            for one in family.samples
        }


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    orders = Table(name="orders", source=DmsFiles(path=("in",), header=True), keys=("id",))
    return Pipeline(pipeline="shop", lake=Lake(warehouse="lake"), tables=(orders,)).at(tmp_path)


@pytest.fixture
def progress(pipeline: Pipeline, client: Client) -> Iterator[LoopProgress]:
    with served(pipeline, {"orders"}, ("127.0.0.1", 0), client.said.append) as one:
        yield one


def report(*errors: SourceError) -> RunReport:
    failures = [Failure.of("orders", error) for error in errors]
    outcome: Any = "failed" if errors else "done"
    return RunReport(
        pipeline="shop", seconds=1.5, tables=[TableReport(table="orders", outcome=outcome, changes=7, errors=failures)]
    )


def test_a_watch_is_ready_after_a_good_round_and_not_while_a_failure_stands(
    progress: LoopProgress, client: Client
) -> None:
    options = progress.of_watch(WatchOptions())

    assert client.get("/readyz") == (503, "no round has ended yet\n")
    options.turned(StorageError("no catalog"))
    assert client.get("/readyz") == (503, "failing: FZ300\n")
    options.turned(report())
    assert client.get("/readyz") == (200, "ready\n")
    options.turned(report(SourceError("a")))
    options.turned(None)
    assert client.get("/readyz") == (503, "failing: FZ200\n"), "nothing was tried since"
    options.turned(report())
    options.turned(None)
    assert client.get("/readyz") == (200, "ready\n")


def test_metrics_of_a_watch_are_its_rounds_and_its_newest_run(progress: LoopProgress, client: Client) -> None:
    ran: list[float] = []
    options = progress.of_watch(WatchOptions(ran=lambda _report, lag: ran.append(lag)))

    for found in (None, report(SourceError("a")), report(SourceError("b"))):
        options.turned(found)
    failing = client.metrics()
    options.turned(report())
    options.ran(report(), 2.5)
    well = client.metrics()

    assert failing["frazil_rounds_total",] == 3
    assert failing["frazil_errors_total", "FZ200"] == 2
    assert failing["frazil_round_failed",] == failing["frazil_table_failed", "orders"] == 1
    assert failing["frazil_run_exit_code",] == 3
    assert ("frazil_lag_seconds",) not in failing
    assert well["frazil_round_failed",] == well["frazil_table_failed", "orders"] == 0
    assert (well["frazil_lag_seconds",], well["frazil_run_seconds",]) == (2.5, 1.5)
    assert well["frazil_table_changes", "orders"] == 7
    assert well["frazil_round_success_timestamp_seconds",] == well["frazil_round_timestamp_seconds",]
    assert ran == [2.5]


def test_metrics_of_a_capture_are_what_it_landed_and_how_far_it_is_behind(
    progress: LoopProgress, client: Client
) -> None:
    options = progress.of_capture(CaptureOptions())
    before = client.metrics()

    for landed in (Landed(files=2, records=9), Landed(), Landed(files=1, records=1)):
        options.turned("slot a", landed, [])
    options.turned("slot b", Landed(), [SourceError("a")])
    progress.measured((CaptureLag(name="slot a", behind_bytes=12, behind_seconds=3.5), CaptureLag(name="slot b")))
    found = client.metrics()

    assert before["frazil_rounds_total",] == 0
    assert ("frazil_round_timestamp_seconds",) not in before
    assert found["frazil_landed_files_total", "slot a"] == 3
    assert found["frazil_landed_records_total", "slot a"] == 10
    assert found["frazil_landed_timestamp_seconds", "slot a"] > 1_700_000_000
    assert ("frazil_landed_timestamp_seconds", "slot b") not in found
    assert found["frazil_capture_lag_bytes", "slot a"] == 12
    assert found["frazil_capture_lag_seconds", "slot a"] == 3.5
    assert ("frazil_capture_lag_bytes", "slot b") not in found
    assert client.get("/readyz") == (503, "failing: FZ200\n")


def test_a_loop_that_shows_no_progress_is_not_healthy(
    progress: LoopProgress, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, captured = progress.of_watch(WatchOptions()), progress.of_capture(CaptureOptions())
    assert watched.listener
    signs: list[Callable[[], None]] = [
        partial(watched.turned, None),
        partial(watched.listener.progressed, "orders", "40 %"),
        partial(captured.progressed, "slot a", "1,000 rows"),
    ]

    for sign in signs:
        monkeypatch.setattr(progress, "_beat", progress._beat - 2000)
        assert client.get("/healthz")[0] == 503
        assert client.get("/healthz?seconds=7200")[0] == 200
        sign()
        assert client.get("/healthz")[0] == 200
    assert client.get("/healthz?seconds=soon")[0] == 200


def test_other_paths_are_not_found(progress: LoopProgress, client: Client) -> None:
    del progress

    assert [client.get(path)[0] for path in ("/", "/metrics/../etc", "/healthz/x")] == [404] * 3
    assert [client.get("/metrics", method)[0] for method in ("POST", "DELETE", "PUT")] == [501] * 3


def test_a_client_that_says_nothing_delays_no_probe(progress: LoopProgress, client: Client) -> None:
    progress.of_watch(WatchOptions()).turned(report())
    silent = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(20)]

    assert client.get("/readyz") == (200, "ready\n")

    for one in silent:
        one.close()


def test_a_port_in_use_is_named_with_the_way_out(pipeline: Pipeline, progress: LoopProgress, client: Client) -> None:
    del progress

    with pytest.raises(MetricsPortError, match=r"cannot listen on 127.0.0.1:\d+: Address already in use"):
        served(pipeline, {"orders"}, ("127.0.0.1", client.port), print).__enter__()
    with pytest.raises(MetricsPortError, match="--metrics-host"):
        served(pipeline, {"orders"}, ("203.0.113.1", 0), print).__enter__()


def test_without_the_library_its_extra_is_named(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("frazil.interop.metrics")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(ObserverError, match=r"--metrics-port needs prometheus_client(.|\n)*frazil\[observe\]"):
        served(pipeline, {"orders"}, ("127.0.0.1", 0), print).__enter__()


CAPTURED = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - {name: orders, source: {kind: postgres, url: "${env:SHOP_DB}", table: public.o, landing: ./in}, keys: [id]}
"""


def test_a_capture_at_work_answers_without_secrets(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DB", "postgresql://me:hidden@127.0.0.1:1/none")
    (tmp_path / "frazil.yml").write_text(CAPTURED, encoding="utf-8")
    stop, found = Event(), dict[str, tuple[int, str]]()

    def turned(*_: object) -> None:
        found.update({path: client.get(path) for path in ("/metrics", "/healthz", "/readyz")})
        stop.set()

    options = api.CaptureOptions(turned=turned, tell=lambda _name, text: client.said.append(text))
    code = api.capture(tmp_path, stop, options=options, metrics=("127.0.0.1", 0))

    assert code == 3
    assert found["/readyz"] == (503, "failing: FZ210\n")
    assert found["/healthz"][0] == 200
    assert 'frazil_errors_total{code="FZ210",pipeline="shop"} 1.0' in found["/metrics"][1]
    assert "hidden" not in f"{found}"
    with pytest.raises(ConnectionRefusedError):
        client.get("/healthz")


def test_an_invalid_port_is_refused(tmp_path: Path) -> None:
    assert command("capture", f"{tmp_path}", "--metrics-port", "70000").code == 2
    assert command("watch", f"{tmp_path}", "--metrics-port", "here").code == 2
