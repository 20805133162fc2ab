"""A pipeline's newest run, and a process that follows its sources, as metrics of Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from frazil.serve.checks import LAWS, SOURCE, last_checks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from frazil.interop.live import LoopProgress, Seen
    from frazil.runner.report import GoldReport, RunReport, TableReport
    from frazil.serve.checks import LastChecks
    from frazil.spec import Pipeline
    from frazil.steps import Step


class Metrics:
    """Writes the metrics after each run, and replaces the file atomically. A file belongs to one pipeline."""

    def __init__(self, pipeline: Pipeline, file: str) -> None:
        self._pipeline, self._file = pipeline, file

    def planned(self, steps: Sequence[Step]) -> None:
        """Do nothing: metrics describe finished runs."""

    def began(self, table: str, what: str) -> None:
        """Do nothing."""

    def progressed(self, table: str, how_far: str) -> None:
        """Do nothing."""

    def ended(self, report: TableReport | GoldReport) -> None:
        """Do nothing."""

    def finished(self, report: RunReport, lag_seconds: float | None) -> None:
        """Write the metrics of a run.

        Raises:
            OSError: the file cannot be written.
        """
        registry = registry_of(report, lag_seconds, now=time.time())
        registry.register(CheckMetrics(report.pipeline, last_checks(self._pipeline)))
        write_to_textfile(self._file, registry)


def registry_of(report: RunReport, lag_seconds: float | None, *, now: float) -> CollectorRegistry:
    """Return the metrics of a run, as a registry for any exporter of prometheus-client.

    Args:
        report: the run.
        lag_seconds: time from the newest ingested file's modification until its rows were readable, or None.
        now: end of the run, as a Unix time.
    """
    registry, pipeline = CollectorRegistry(), report.pipeline

    def gauge(name: str, says: str, *labels: str) -> Gauge:
        return Gauge(f"frazil_{name}", says, ("pipeline", *labels), registry=registry)

    gauge("run_timestamp_seconds", "When the newest run ended.").labels(pipeline).set(now)
    gauge("run_seconds", "How long it took.").labels(pipeline).set(report.seconds)
    gauge("run_exit_code", "Exit code of its worst failure; 0 without failures.").labels(pipeline).set(report.exit_code)
    if lag_seconds is not None:
        lag = gauge("lag_seconds", "Time from the newest ingested file's modification until its rows were readable.")
        lag.labels(pipeline).set(lag_seconds)
    failed = gauge("table_failed", "1 if a table or an aggregate failed.", "table")
    seconds = gauge("table_seconds", "How long a table or an aggregate took.", "table")
    numbers = {
        name: gauge(f"table_{name}", says, "table")
        for name, says in {
            "files": "Ingested files.",
            "deferred": "Files that wait for a later run.",
            "changes": "Changes that passed the contract.",
            "quarantined": "Records that went to quarantine.",
        }.items()
    }
    keys = gauge("mart_keys", "Keys of a mart by the action of the run.", "mart", "action")
    rows = gauge("gold_rows", "Rows of an aggregate that was refreshed.", "table")
    for table in report.tables:
        failed.labels(pipeline, table.table).set(table.outcome == "failed")
        seconds.labels(pipeline, table.table).set(table.seconds)
        for name, one in numbers.items():
            one.labels(pipeline, table.table).set(getattr(table, name))
        for mart in table.marts:
            for action in ("inserted", "updated", "deleted", "late"):
                keys.labels(pipeline, mart.mart, action).set(getattr(mart, action))
    for made in report.gold:
        failed.labels(pipeline, f"gold.{made.name}").set(made.outcome == "failed")
        seconds.labels(pipeline, f"gold.{made.name}").set(made.seconds)
        if made.outcome == "done":
            rows.labels(pipeline, made.name).set(made.rows)
    return registry


def metrics_text(progress: LoopProgress) -> tuple[bytes, str]:
    """Return the metrics as text, and its content type."""
    seen = progress.seen
    run = seen.run
    registry = CollectorRegistry() if run is None else registry_of(run.report, run.lag_seconds, now=run.at)
    registry.register(LoopMetrics(progress.pipeline, seen))
    registry.register(CheckMetrics(progress.pipeline, seen.checks))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _OfPipeline(Collector):
    """Numbers of a pipeline; without a value a metric has no sample."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline

    def _counter(self, name: str, says: str, samples: Iterable[tuple[tuple[str, ...], float]], *labels: str) -> Metric:
        made = CounterMetricFamily(f"frazil_{name}", says, labels=("pipeline", *labels))
        for values, number in samples:
            made.add_metric((self._pipeline, *values), number)
        return made

    def _gauge(
        self, name: str, says: str, samples: Iterable[tuple[tuple[str, ...], float | None]], *labels: str
    ) -> Metric:
        made = GaugeMetricFamily(f"frazil_{name}", says, labels=("pipeline", *labels))
        for values, number in samples:
            if number is not None:
                made.add_metric((self._pipeline, *values), number)
        return made


class CheckMetrics(_OfPipeline):
    """The last results of checks, and up to when tables were found equal to their sources."""

    def __init__(self, pipeline: str, checks: Mapping[str, LastChecks]) -> None:
        super().__init__(pipeline)
        self._checks = sorted(checks.items())

    def collect(self) -> Iterable[Metric]:
        """Yield each metric with its samples."""
        ended = [
            ((name, sort), made)
            for name, one in self._checks
            for sort, made in ((LAWS, one.laws), (SOURCE, one.source))
            if made is not None
        ]
        at = [(labels, made.at.timestamp()) for labels, made in ended]
        yield self._gauge("check_timestamp_seconds", "When the last check of a table ended.", at, "table", "check")
        results = ("held", "failed", "undecided")
        counts = [((*labels, result), getattr(made, result)) for labels, made in ended for result in results]
        yield self._gauge("check_results", "Results of the last check of a table.", counts, "table", "check", "result")
        marks = [((name,), one.verified.at, one.is_behind) for name, one in self._checks if one.verified is not None]
        through = [(labels, None if at is None else at.timestamp()) for labels, at, _ in marks]
        yield self._gauge("verified_timestamp_seconds", "Until when a table was found equal.", through, "table")
        late = [(labels, is_behind) for labels, _, is_behind in marks]
        yield self._gauge("verify_behind", "1 if that is longer ago than twice what verify says.", late, "table")


class LoopMetrics(_OfPipeline):
    """The numbers of the process itself."""

    def __init__(self, pipeline: str, seen: Seen) -> None:
        super().__init__(pipeline)
        self._seen = seen

    def collect(self) -> Iterable[Metric]:
        """Yield each metric with its samples; without a value it has none."""
        seen = self._seen
        yield self._counter("rounds", "Turns of the loop.", [((), seen.rounds)])
        yield self._gauge("round_timestamp_seconds", "When the newest turn ended.", [((), seen.round_at)])
        good = "When the newest turn without a failure ended."
        yield self._gauge("round_success_timestamp_seconds", good, [((), seen.good_at)])
        yield self._gauge("round_failed", "1 while a failure stands.", [((), bool(seen.failing))])
        errors = [((code,), count) for code, count in sorted(seen.errors.items())]
        yield self._counter("errors", "Failures by code, in each turn that has them.", errors, "code")
        yield from self._captures()

    def _captures(self) -> Iterator[Metric]:
        landed, lags = self._seen.landed.items(), self._seen.lags
        files, records = ([((name,), getattr(one, what)) for name, one in landed] for what in ("files", "records"))
        yield self._counter("landed_files", "Landed files.", files, "capture")
        yield self._counter("landed_records", "Records in landed files.", records, "capture")
        at = [((name,), one.at) for name, one in landed]
        yield self._gauge("landed_timestamp_seconds", "When the newest file was landed.", at, "capture")
        size, age = ([((one.name,), getattr(one, f"behind_{what}")) for one in lags] for what in ("bytes", "seconds"))
        yield self._gauge("capture_lag_bytes", "Bytes at the server that are not landed.", size, "capture")
        yield self._gauge("capture_lag_seconds", "Age of the oldest change that is not landed.", age, "capture")
