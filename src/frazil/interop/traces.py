"""OpenTelemetry traces of runs, with a span for each table and each of its steps."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.trace import Span

    from frazil.runner.report import GoldReport, RunReport, TableReport
    from frazil.spec import Pipeline
    from frazil.steps import Step

_FLUSH_MILLISECONDS = 10_000


class Traces:
    """Sends spans by OTLP over HTTP. OpenTelemetry's own variables set the address, headers and service name."""

    def __init__(self, pipeline: Pipeline) -> None:
        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME") or "frazil"})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer, self._lock = self._provider.get_tracer("frazil"), Lock()
        self._pipeline = pipeline.pipeline
        self._run: Span | None = None
        self._tables: dict[str, Span] = {}
        self._steps: dict[str, Span] = {}

    def planned(self, steps: Sequence[Step]) -> None:
        """Begin the span of the run, unless it has nothing to do."""
        if steps:
            given: dict[str, str | int] = {"frazil.pipeline": self._pipeline, "frazil.steps": len(steps)}
            self._run = self._tracer.start_span(f"run {self._pipeline}", attributes=given)

    def began(self, table: str, what: str) -> None:
        """End the current step of a table, and begin the next."""
        with self._lock:
            if self._run is None:  # captures begin before the plan
                return
            if table not in self._tables:
                inside = trace.set_span_in_context(self._run)
                self._tables[table] = self._tracer.start_span(table, context=inside)
            if table in self._steps:
                self._steps.pop(table).end()
            self._steps[table] = self._tracer.start_span(what, context=trace.set_span_in_context(self._tables[table]))

    def progressed(self, table: str, how_far: str) -> None:
        """Do nothing: spans describe whole steps."""

    def ended(self, report: TableReport | GoldReport) -> None:
        """End the span of a table, with its failure."""
        name = report.table if hasattr(report, "table") else f"gold.{report.name}"
        with self._lock:
            if name in self._steps:
                self._steps.pop(name).end()
            span = self._tables.pop(name, None)
        if span is not None:
            span.set_attribute("frazil.outcome", report.outcome)
            _fail(span, [failure.code for failure in report.errors])
            span.end()

    def finished(self, report: RunReport, lag_seconds: float | None) -> None:
        """End the span of the run and send all spans; wait at most ten seconds for the receiver."""
        del lag_seconds
        span, self._run = self._run, None
        if span is None:
            return
        for left in (*self._steps.values(), *self._tables.values()):
            left.end()
        self._steps, self._tables = {}, {}
        span.set_attributes({"frazil.run_id": report.run_id, "frazil.exit_code": report.exit_code})
        _fail(span, [failure.code for failure in report.errors])
        span.end()
        self._provider.force_flush(_FLUSH_MILLISECONDS)


def _fail(span: Span, codes: list[str]) -> None:
    if codes:
        span.set_attribute("frazil.errors", codes)
        span.set_status(trace.Status(trace.StatusCode.ERROR, ", ".join(codes)))
