"""Logs, metrics, traces and lineage of a real run, as real receivers get them; nothing without their settings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from tests.answering import Quiet, address_of, answering

import frazil
from frazil import api
from frazil.errors import Failure, FrazilError, SetupError
from frazil.interop.lineage import gold_lineage
from frazil.interop.live import LoopProgress
from frazil.interop.metrics import CheckMetrics, LoopMetrics, registry_of
from frazil.interop.observe import ObserverError, observed, observers
from frazil.runner.report import RunReport, TableReport
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

WORD = re.compile(r"\bfrazil_\w+")
NAMES = (
    *("FRAZIL_LOG_FILE", "FRAZIL_METRICS_FILE", "OPENLINEAGE_URL"),
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
)
DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [updated_at]
    columns:
      - {name: id, type: int}
      - {name: updated_at, type: timestamp}
      - {name: total, type: "decimal(8,2)"}
      - {name: city}
gold:
  - {name: by_city, sql: "select city as place, count(*) as n, sum(total * 2) as twice from {{ orders }} group by city"}
  - {name: best, sql: "with b as (select * from {{ by_city }}) select place, twice + n as score from b where n > 0"}
"""


@contextmanager
def receiver() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A server that keeps what is posted to it: its address, and the (path, body) pairs."""
    got: list[tuple[str, bytes]] = []

    class Keeps(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Keeps)) as server:
        yield address_of(server), got


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    rows = "I,1,2026-01-01 00:00:00,1.50,Rome\nI,2,2026-01-01 00:00:00,2.00,Bern\nI,3,never,1.00,Bern\n"
    (tmp_path / "landing" / "LOAD1.csv").write_text(f"Op,id,updated_at,total,city\n{rows}", encoding="utf-8")
    return tmp_path


def test_without_settings_the_options_stay_as_they_are(folder: Path) -> None:
    options = api.RunOptions()
    seen: list[api.RunOptions] = []

    def work(given: api.RunOptions) -> RunReport:
        seen.append(given)
        return RunReport(pipeline="shop")

    observed(frazil.load(folder), options, work)

    assert seen[0] is options


@pytest.mark.process
def test_without_settings_nothing_is_imported(folder: Path) -> None:
    script = (
        "import sys; from frazil import api; "
        "from frazil.interop.observe import observers; observers(api.load(sys.argv[1])); "
        "print([name for name in ('opentelemetry', 'openlineage', 'prometheus_client') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", script, f"{folder}"], check=True, capture_output=True, text=True)
    assert said.stdout == "[]\n"


def test_a_library_that_is_not_there_is_named_with_the_way_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.delitem(sys.modules, "frazil.interop.open_lineage", raising=False)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)

    with pytest.raises(ObserverError, match=r"openlineage.client(.|\n)*frazil\[observe\]"):
        observers(frazil.load(folder))


def test_a_receiver_that_fails_is_a_warning_and_the_run_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_METRICS_FILE", f"{folder / 'no' / 'such' / 'folder.prom'}")

    report = observed(frazil.load(folder), api.RunOptions(), lambda _: RunReport(pipeline="shop"))

    (warning,) = report.warnings
    assert warning.startswith("Metrics: not written: FileNotFoundError")


def test_lineage_hides_values_and_logins_in_errors_and_has_each_run_of_a_watch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [
        Failure.of("orders", FrazilError("orders: ValueError: Rome is no number")),
        Failure.of("orders", SetupError("postgresql://me:secret@db/shop does not answer")),
    ]
    with receiver() as (address, got):
        monkeypatch.setenv("OPENLINEAGE_URL", address)
        (lineage,) = observers(frazil.load(folder))
        for _ in range(2):
            failed = TableReport(table="orders", outcome="failed", errors=failures)
            lineage.finished(RunReport(pipeline="shop", run_id=f"{uuid4()}", tables=[failed]), None)

    told = [json.loads(body) for _, body in got]
    assert [one["eventType"] for one in told if one["job"]["name"] == "shop"] == ["START", "FAIL", "START", "FAIL"]
    said = "\n".join(one["run"]["facets"].get("errorMessage", {}).get("message", "") for one in told)
    assert "does not answer" in said
    assert not [word for word in ("Rome", "secret", "me:") if word in said]


def test_columns_of_aggregates_lead_to_those_of_marts_and_of_other_aggregates(folder: Path) -> None:
    columns = {"id": "int", "updated_at": "timestamp", "total": "decimal(8,2)", "city": "string"}

    found = gold_lineage(frazil.load(folder), {"orders": columns})

    assert found["by_city"] == {"place": (("orders", "city"),), "n": (), "twice": (("orders", "total"),)}
    assert found["best"]["place"] == (("by_city", "place"),)
    assert {*found["best"]["score"]} == {("by_city", "twice"), ("by_city", "n")}


@pytest.mark.spark
def test_all_receivers_get_each_run(folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    del spark  # only there so that Java runs
    log, metrics = folder / "log.jsonl", folder / "frazil.prom"
    with receiver() as (address, got):
        monkeypatch.setenv("FRAZIL_LOG_FILE", f"{log}")
        monkeypatch.setenv("FRAZIL_METRICS_FILE", f"{metrics}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OPENLINEAGE_URL", address)
        pipeline = frazil.load(folder)
        report = api.run(pipeline, spark=spark_session(pipeline))
    assert report.warnings == []

    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [events[0]["event"], events[-1]["event"], events[-1]["exit_code"]] == ["run planned", "run ended", 0]
    (orders,) = [one for one in events if one["event"] == "table ended" and one["table"] == "orders"]
    assert (orders["changes"], orders["quarantined"], orders["marts"]) == (2, 1, {"orders": [2, 0, 0, 0]})
    assert "Rome" not in log.read_text(encoding="utf-8")

    samples = {
        (one.name, one.labels.get("table") or one.labels.get("mart"), one.labels.get("action")): one.value
        for family in text_string_to_metric_families(metrics.read_text(encoding="utf-8"))
        for one in family.samples
    }
    assert samples["frazil_table_quarantined", "orders", None] == 1
    assert samples["frazil_mart_keys", "orders", "inserted"] == 2
    assert samples["frazil_gold_rows", "by_city", None] == 2
    assert samples["frazil_run_exit_code", None, None] == 0

    spans = [
        span
        for path, body in got
        if path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    by_name = {span.name: span for span in spans}
    assert {"run shop", "orders", "gold.by_city", "normalize"} <= by_name.keys()
    assert by_name["orders"].parent_span_id == by_name["run shop"].span_id
    assert by_name["normalize"].parent_span_id == by_name["orders"].span_id
    assert len({span.trace_id for span in spans}) == 1

    told = [json.loads(body) for path, body in got if path == "/api/v1/lineage"]
    assert [one["eventType"] for one in told if one["job"]["name"] == "shop"] == ["START", "COMPLETE"]
    (mart,) = [one for one in told if one["job"]["name"] == "shop.orders" and one["eventType"] == "COMPLETE"]
    assert mart["run"]["facets"]["parent"]["run"]["runId"] == report.run_id
    (made,) = [one for one in told if one["job"]["name"] == "shop.gold.by_city" and one["eventType"] == "COMPLETE"]
    fields = made["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert [(one["name"], one["field"]) for one in fields["twice"]["inputFields"]] == [("marts.orders", "total")]
    assert mart["outputs"][0]["namespace"] == made["inputs"][0]["namespace"]
    assert mart["outputs"][0]["name"] == made["inputs"][0]["name"] == "marts.orders"


def test_the_dashboard_asks_for_all_metrics_that_there_are() -> None:
    dashboard = json.loads((Path(__file__).parents[2] / "docs" / "grafana.json").read_text(encoding="utf-8"))
    targets = json.dumps([panel.get("targets") for panel in dashboard["panels"]])
    registry = registry_of(RunReport(pipeline="shop"), 1.0, now=0.0)
    registry.register(LoopMetrics("shop", LoopProgress("shop").seen))
    registry.register(CheckMetrics("shop", {}))

    there = {f"{one.name}_total" if one.type == "counter" else one.name for one in registry.collect()}
    assert {*WORD.findall(targets)} == there
