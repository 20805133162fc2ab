"""Observers of runs: JSON logs, metrics, traces and lineage, each enabled by its environment variable."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from frazil.errors import SetupError
from frazil.runner.options import Listener
from frazil.runner.report import RunFailedError, TableReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frazil.runner.options import RunOptions, WatchOptions
    from frazil.runner.report import GoldReport, RunReport
    from frazil.spec import Pipeline
    from frazil.steps import Step


class Observer(Listener, Protocol):
    """A listener that also receives the report. Called from several threads; its errors become warnings."""

    def finished(self, report: RunReport, lag_seconds: float | None) -> None:
        """Called when a run has ended, even if it failed; ``lag_seconds`` is known within ``frazil watch`` only."""


class ObserverError(SetupError):
    """A library that an observer needs is not installed."""

    code = "FZ912"


def observers(pipeline: Pipeline) -> list[Observer]:
    """Return the observers that environment variables enable; only their libraries are imported.

    Raises:
        ObserverError: a library is not installed.
    """
    found: list[Observer] = []
    place = os.environ.get
    try:
        if file := place("FRAZIL_LOG_FILE"):
            found.append(JsonLog(pipeline, file))
        if file := place("FRAZIL_METRICS_FILE"):
            from frazil.interop.metrics import Metrics  # noqa: PLC0415 - imported only when configured

            found.append(Metrics(pipeline, file))
        if place("OTEL_EXPORTER_OTLP_ENDPOINT") or place("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
            from frazil.interop.traces import Traces  # noqa: PLC0415

            found.append(Traces(pipeline))
        if place("OPENLINEAGE_URL"):
            from frazil.interop.open_lineage import OpenLineage  # noqa: PLC0415

            found.append(OpenLineage(pipeline))
    except ModuleNotFoundError as error:
        hint = "pip install 'frazil[observe]', or unset the variable"
        raise ObserverError(f"an observer in the environment needs {error.name}", hint=hint) from error
    return found


def observed(pipeline: Pipeline, options: RunOptions, work: Callable[[RunOptions], RunReport]) -> RunReport:
    """Run with all observers.

    Args:
        pipeline: the declaration.
        options: options of the run; their listener is called as well.
        work: runs with the options that it gets.

    Raises:
        ObserverError: a library is not installed.
    """
    found = observers(pipeline)
    if not found:
        return work(options)
    everyone = _Everyone(found, options.listener)
    try:
        report = work(replace(options, listener=everyone))
    except RunFailedError as error:
        everyone.finished(error.report)
        raise
    everyone.finished(report)
    return report


def observed_watch(pipeline: Pipeline, options: WatchOptions) -> WatchOptions:
    """Return options with which a watch calls all observers.

    Raises:
        ObserverError: a library is not installed.
    """
    found = observers(pipeline)
    if not found:
        return options
    everyone = _Everyone(found, options.listener)

    def ran(report: RunReport, lag_seconds: float) -> None:
        everyone.finished(report, lag_seconds)
        options.ran(report, lag_seconds)

    return replace(options, listener=everyone, ran=ran)


class _Everyone:
    """All observers and the original listener, as one listener."""

    def __init__(self, observers: Sequence[Observer], listener: Listener | None) -> None:
        self._observers = observers
        self._listeners: list[Listener] = [*([listener] if listener else []), *map(_Safely, observers)]

    def planned(self, steps: Sequence[Step]) -> None:
        for one in self._listeners:
            one.planned(steps)

    def began(self, table: str, what: str) -> None:
        for one in self._listeners:
            one.began(table, what)

    def progressed(self, table: str, how_far: str) -> None:
        for one in self._listeners:
            one.progressed(table, how_far)

    def ended(self, report: TableReport | GoldReport) -> None:
        for one in self._listeners:
            one.ended(report)

    def finished(self, report: RunReport, lag_seconds: float | None = None) -> None:
        for one in self._observers:
            try:
                one.finished(report, lag_seconds)
            except Exception as error:  # noqa: BLE001 - a receiver that fails must not fail the run
                report.warnings.append(f"{type(one).__name__}: not written: {type(error).__name__}: {error}")


class _Safely:
    """A listener whose errors are ignored, because its ``finished`` reports them."""

    def __init__(self, one: Listener) -> None:
        self._one = one

    def planned(self, steps: Sequence[Step]) -> None:
        self._call(lambda: self._one.planned(steps))

    def began(self, table: str, what: str) -> None:
        self._call(lambda: self._one.began(table, what))

    def progressed(self, table: str, how_far: str) -> None:
        self._call(lambda: self._one.progressed(table, how_far))

    def ended(self, report: TableReport | GoldReport) -> None:
        self._call(lambda: self._one.ended(report))

    def _call(self, tell: Callable[[], None]) -> None:
        with suppress(Exception):
            tell()


class JsonLog:
    """Appends events to a file, or to standard error for ``-``. Events never contain rows or secrets."""

    def __init__(self, pipeline: Pipeline, file: str) -> None:
        self._pipeline, self._file, self._lock = pipeline.pipeline, file, Lock()

    def planned(self, steps: Sequence[Step]) -> None:
        """Write the number of steps."""
        self._write("run planned", steps=len(steps))

    def began(self, table: str, what: str) -> None:
        """Write the step of a table that begins."""
        self._write("step began", table=table, step=what)

    def progressed(self, table: str, how_far: str) -> None:
        """Write nothing: progress is for people who watch."""

    def ended(self, report: TableReport | GoldReport) -> None:
        """Write the outcome of a table or an aggregate, with its numbers."""
        if isinstance(report, TableReport):
            marts = {mart.mart: [mart.inserted, mart.updated, mart.deleted, mart.late] for mart in report.marts}
            numbers = {"files": report.files, "rows": report.rows, "changes": report.changes}
            numbers |= {"quarantined": report.quarantined, "batch": report.batch}
            self._write("table ended", table=report.table, **_outcome(report), **numbers, marts=marts)
        else:
            self._write("table ended", table=f"gold.{report.name}", **_outcome(report), rows=report.rows)

    def finished(self, report: RunReport, lag_seconds: float | None) -> None:
        """Write the outcome of the run."""
        lag = {} if lag_seconds is None else {"lag_seconds": round(lag_seconds, 3)}
        seconds, exit_code = round(report.seconds, 3), report.exit_code
        self._write("run ended", run_id=report.run_id, steps=report.steps, seconds=seconds, exit_code=exit_code, **lag)

    def _write(self, event: str, **values: Any) -> None:
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, "pipeline": self._pipeline, **values}) + "\n"
        with self._lock:
            if self._file == "-":
                sys.stderr.write(line)
            else:
                with Path(self._file).open("a", encoding="utf-8") as log:
                    log.write(line)


def _outcome(report: TableReport | GoldReport) -> dict[str, Any]:
    errors = [failure.code for failure in report.errors]
    return {"outcome": report.outcome, "seconds": round(report.seconds, 3), **({"errors": errors} if errors else {})}
