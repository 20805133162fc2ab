"""The numbers of a process as Prometheus reads them, with those of its newest run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from frazil.interop.metrics import registry_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from frazil.interop.live.progress import LoopProgress, Seen


def metrics_text(progress: LoopProgress) -> tuple[bytes, str]:
    """Return the metrics as text, and its content type."""
    seen = progress.seen
    run = seen.run
    registry = CollectorRegistry() if run is None else registry_of(run.report, run.lag_seconds, now=run.at)
    registry.register(_Collected(progress.pipeline, seen))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collected(Collector):
    """The numbers of the process itself."""

    def __init__(self, pipeline: str, seen: Seen) -> None:
        self._pipeline, self._seen = pipeline, seen

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
