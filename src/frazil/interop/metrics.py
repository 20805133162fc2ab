"""Prometheus metrics of a pipeline's newest run, as a file for node_exporter's textfile collector."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.runner.report.report import GoldReport, RunReport, TableReport
    from frazil.steps import Step


class Metrics:
    """Writes the metrics after each run, and replaces the file atomically. A file belongs to one pipeline."""

    def __init__(self, file: str) -> None:
        self._file = file

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
        write_to_textfile(self._file, registry_of(report, lag_seconds, now=time.time()))


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
