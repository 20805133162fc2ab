"""Structured logs: one line of JSON for each thing that happens in a run."""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from frazil.runner.report.report import TableReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.runner.report.report import GoldReport, RunReport
    from frazil.spec import Pipeline
    from frazil.steps import Step


class JsonLog:
    """Append events to a file, or to the standard error where its name is ``-``; never a row, never a secret."""

    def __init__(self, pipeline: Pipeline, file: str) -> None:
        self._pipeline, self._file, self._lock = pipeline.pipeline, file, Lock()

    def planned(self, steps: Sequence[Step]) -> None:
        """Write how many steps there are."""
        self._write("run planned", steps=len(steps))

    def began(self, table: str, what: str) -> None:
        """Write which part of a table's work begins."""
        self._write("step began", table=table, step=what)

    def progressed(self, table: str, how_far: str) -> None:
        """Write nothing: how far a step is, is for a person who looks."""

    def ended(self, report: TableReport | GoldReport) -> None:
        """Write what a table or an aggregate came to, with its numbers."""
        if isinstance(report, TableReport):
            marts = {mart.mart: [mart.inserted, mart.updated, mart.deleted, mart.late] for mart in report.marts}
            numbers = {"files": report.files, "rows": report.rows, "changes": report.changes}
            numbers |= {"quarantined": report.quarantined, "batch": report.batch}
            self._write("table ended", table=report.table, **_outcome(report), **numbers, marts=marts)
        else:
            self._write("table ended", table=f"gold.{report.name}", **_outcome(report), rows=report.rows)

    def finished(self, report: RunReport, lag_seconds: float | None) -> None:
        """Write how the run ended."""
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
