"""The record of a run: an OpenLineage event when it starts and one when it ends, as files below the warehouse.

Deleting records does not affect tables or runs, and an unwritable record does not fail a run. A run without steps and
failures writes a record only if an earlier run failed or was killed, to show that this is resolved.
"""

from __future__ import annotations

import datetime as dt
import os
import secrets
import socket
import uuid
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from frazil.audit.certificates import Certifying
from frazil.audit.run_files import write_run_file
from frazil.bronze import record as r
from frazil.catalog.lock import lock
from frazil.errors import BusyError, Failure, FrazilError
from frazil.gold import tables_of
from frazil.marts.counts import untimed_deletes
from frazil.marts.layout import fold_spec, with_event_time
from frazil.plan.plan import gold_left
from frazil.runner.past_runs import FACET, standing
from frazil.runner.report import GoldReport, RunFailedError, RunReport, TableReport
from frazil.spec.contract import added_columns
from frazil.spec.location import locate, warehouse
from frazil.spec.secrets import redacted
from frazil.spec.sql.names import quote
from frazil.spec.tables import lake_tables
from frazil.steps import RefreshGold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.plan.plan import Plan
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import Pipeline
    from frazil.spec.sql.select import Selection
    from frazil.spec.tables import LakeTable
    from frazil.steps import Normalize, Step


PRODUCER: Final = "urn:frazil"
_SPEC: Final = "https://openlineage.io/spec"
_OWN: Final = {"_producer": PRODUCER, "_schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/BaseFacet"}
"""Properties that OpenLineage requires of custom facets."""
_COUNTS: Final = ("inserted", "updated", "deleted", "late")


def run_id(now: dt.datetime) -> str:
    """Return a new run id: a UUID of version 7, which sorts by time."""
    milliseconds = int(now.timestamp() * 1000)
    number = milliseconds << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    return f"{uuid.UUID(int=number)}"


def record_idle(plan: Plan) -> RunReport:
    """Return the report of a run without steps, and record it if it failed or resolves an earlier failure.

    Raises:
        RunFailedError: tables or aggregates of the plan failed.
    """
    now = dt.datetime.now(dt.UTC)
    report = report_of(plan.pipeline, plan.selection, run_id=run_id(now))
    fill_report(report, plan)
    if plan.pipeline.certificates:
        with suppress(BusyError), lock(plan.pipeline):  # what a killed run left
            certifying = Certifying.of(plan.pipeline, "run")
            if certifying is not None and (why := certifying.write(run_id=report.run_id, now=now)):
                report.warnings.append(f"the certificate cannot be written: {why}")
    record = Record(plan.pipeline, report, now)
    record.start(())
    record.end()
    if report.errors:
        raise RunFailedError(report, [*plan.failed.values()])
    return report


class Record:
    """The record of one run. A failed write becomes one warning of the report."""

    def __init__(self, pipeline: Pipeline, report: RunReport, now: dt.datetime) -> None:
        self._pipeline, self._report, self._began = pipeline, report, now
        self._is_wanted = True
        self._inputs: list[dict[str, Any]] = []

    def start(self, steps: Sequence[Step]) -> None:
        """Write the START event, if the run has something to record."""
        report = self._report
        if self._is_wanted and not steps and not report.errors:
            names = [*(table.table for table in report.tables), *(f"gold.{made.name}" for made in report.gold)]
            self._is_wanted = bool(standing(self._pipeline, names))
        busy = {step.table for step in steps if not isinstance(step, RefreshGold)}
        self._inputs = [*_inputs(self._pipeline, busy)]
        process = {"processId": os.getpid(), "host": socket.gethostname()}
        self._write("start", "START", self._began, {FACET: {**_OWN, **process}}, [])

    def end(self) -> None:
        """Write the COMPLETE event, or FAIL after a failure."""
        self._end("FAIL" if self._report.errors else "COMPLETE")

    def abort(self) -> None:
        """Write the ABORT event: the run was interrupted."""
        self._end("ABORT")

    def _end(self, kind: str) -> None:
        report = self._report
        facets: dict[str, Any] = {FACET: {**_OWN, **_outcome(report)}}
        if report.errors:
            worst = next(failure for failure in report.errors if failure.exit_code == report.exit_code)
            text = f"[{worst.code}] {worst.name}: {kept_message(worst)}"
            facets["errorMessage"] = {
                "_producer": PRODUCER,
                "_schemaURL": f"{_SPEC}/facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet",
                "message": text,
                "programmingLanguage": "python",
            }
        self._write("end", kind, dt.datetime.now(dt.UTC), facets, [*_outputs(self._pipeline, report)])

    def _write(
        self, part: str, kind: str, at: dt.datetime, facets: dict[str, Any], outputs: list[dict[str, Any]]
    ) -> None:
        if not self._is_wanted:
            return
        event = {
            "eventType": kind,
            "eventTime": at.isoformat(),
            "producer": PRODUCER,
            "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
            "run": {"runId": self._report.run_id, "facets": facets},
            "job": {"namespace": "frazil", "name": self._pipeline.pipeline, "facets": {"jobType": _JOB_TYPE}},
            "inputs": self._inputs,
            "outputs": outputs,
        }
        try:
            write_run_file(self._pipeline, f"{self._began:%Y%m%dT%H%M%S.%fZ}-{self._report.run_id}", part, _safe(event))
        except OSError as error:
            self._is_wanted = False
            where = f": {error.filename}" if error.filename else ""
            self._report.warnings.append(
                f"the record of this run cannot be written: {error.strerror or error}{where}. "
                "That does not concern the tables; frazil status will not know of this run"
            )


_JOB_TYPE: Final = {
    "_producer": PRODUCER,
    "_schemaURL": f"{_SPEC}/facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet",
    "processingType": "BATCH",
    "integration": "FRAZIL",
    "jobType": "PIPELINE",
}


def _outcome(report: RunReport) -> dict[str, Any]:
    return {
        "seconds": round(report.seconds, 3),
        "exitCode": report.exit_code,
        "tables": [
            {
                "name": table.table,
                "outcome": table.outcome,
                "batch": table.batch,
                **{name: getattr(table, name) for name in ("files", "rows", "bad", "changes", "quarantined")},
                "errors": [*map(_error, table.errors)],
            }
            for table in report.tables
        ],
        "gold": [
            {"name": f"gold.{made.name}", "outcome": made.outcome, "errors": [*map(_error, made.errors)]}
            for made in report.gold
        ],
    }


def _error(failure: Failure) -> dict[str, Any]:
    return {**asdict(failure), "message": kept_message(failure)}


def kept_message(failure: Failure) -> str:
    """Return a message without values of rows: messages of other libraries are shortened."""
    if failure.code != FrazilError.code:
        return failure.message
    return f"{':'.join(failure.message.split(':')[:2])} (its message is left out: it may hold values of rows)"


def _inputs(pipeline: Pipeline, busy: set[str]) -> Iterator[dict[str, Any]]:
    for table in pipeline.tables:
        if table.name in busy:
            for path in dict.fromkeys(chain.from_iterable(table.source.locations.values())):
                where = locate(path, setting="path", folder=pipeline.folder)
                if where.path is None:
                    store, _, rest = where.uri.partition("://")
                    host, _, key = rest.partition("/")
                    yield {"namespace": f"{store}://{host}", "name": key or "/"}
                else:
                    yield {"namespace": "file", "name": f"{where.path}"}


def _outputs(pipeline: Pipeline, report: RunReport) -> Iterator[dict[str, Any]]:
    lake, made = warehouse(pipeline).uri, {made.full_name: made for made in lake_tables(pipeline)}
    for table in report.tables:
        for name, snapshot in table.commits.items():
            yield _output(lake, name, snapshot, _written(made[name], table))
    for gold in report.gold:
        for name, snapshot in gold.commits.items():
            yield _output(lake, name, snapshot, {"rows": gold.rows, "strategy": gold.strategy})


def _written(made: LakeTable, table: TableReport) -> dict[str, Any]:
    """Return the counts of one table's commit."""
    mart = next((mart for mart in table.marts if (made.role, made.name) == ("mart", mart.mart)), None)
    if mart is not None:
        counts = {count: getattr(mart, count) for count in _COUNTS}
        return {"rows": mart.rows, "batch": mart.batch, "strategy": mart.strategy, **counts}
    if made.role == "bronze":
        return {"rows": table.rows, "batch": table.batch, "files": table.files, "bad": table.bad}
    return {"rows": table.quarantined if made.role == "quarantine" else table.changes, "batch": table.batch}


def _output(lake: str, name: str, snapshot: int, written: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "namespace": lake,
        "name": name,
        "facets": {
            "version": {
                "_producer": PRODUCER,
                "_schemaURL": f"{_SPEC}/facets/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet",
                "datasetVersion": f"{snapshot}",
            }
        },
        "outputFacets": {
            "outputStatistics": {
                "_producer": PRODUCER,
                "_schemaURL": f"{_SPEC}/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json"
                "#/$defs/OutputStatisticsOutputDatasetFacet",
                "rowCount": written["rows"],
            },
            "frazil_commit": {**_OWN, **written, "snapshotId": snapshot},
        },
    }


def _safe(value: Any) -> Any:
    """Return the value without logins and secrets in addresses."""
    match value:
        case str():
            return redacted(value)
        case dict():
            return {name: _safe(part) for name, part in value.items()}
        case list():
            return [_safe(part) for part in value]
        case _:
            return value


_MANY_CHANGES: Final = 100
_LATE_SHARE: Final = 0.2


def report_of(pipeline: Pipeline, selection: Selection, *, run_id: str = "") -> RunReport:
    """Create the report of a run.

    Args:
        pipeline: the declaration.
        selection: tables and aggregates of the run.
        run_id: id of the run.
    """
    return RunReport(
        pipeline=pipeline.pipeline,
        run_id=run_id,
        tables=[TableReport(table=name) for name in selection.tables],
        gold=[
            GoldReport(name=gold.name, over=tables_of(pipeline, gold))
            for gold in pipeline.gold
            if gold.name in selection.gold
        ],
    )


def fill_report(report: RunReport, plan: Plan) -> None:
    """Add the results of planning to the report: failed tables, tables without new files, warnings."""
    busy = {step.table for step in plan.steps if not isinstance(step, RefreshGold)}
    failed, warnings = plan.failed, plan.warnings
    report.steps = len(plan.steps)
    for table in report.tables:
        stand = plan.state.tables.get(table.table)
        if table.table in failed:
            table.outcome = "failed"
            table.errors.append(Failure.of(table.table, failed[table.table]))
        elif stand is not None:
            table.batch = stand.bronze
            table.deferred, table.passed = len(stand.taken.deferred), [*stand.taken.passed]
            table.warnings += warnings.get(table.table, ())
            if table.table not in busy:
                table.outcome = "nothing new"
    for made in report.gold:
        if (wrong := failed.get(f"gold.{made.name}")) is not None:
            made.outcome = "failed"
            made.errors.append(Failure.of(f"{plan.pipeline.lake.namespaces.gold}.{made.name}", wrong))
    leave_gold(report, plan, {*failed})


def leave_gold(report: RunReport, plan: Plan, failed: set[str]) -> None:
    """Mark the aggregates that are not refreshed because source tables failed.

    Args:
        report: the report of the run.
        plan: its plan.
        failed: names of failed tables and aggregates.
    """
    left = gold_left(plan.pipeline, plan.selection, failed)
    for made in report.gold:
        if made.name in left:
            made.outcome, made.because = "not started", left[made.name]


def warn_of_late(report: TableReport) -> None:
    """Warn if so many changes are late that the declared order is probably wrong."""
    late = max((mart.late for mart in report.marts), default=0)
    if report.changes > _MANY_CHANGES and late > _LATE_SHARE * report.changes:
        share = f"{late:,} of {report.changes:,} changes ({late / report.changes:.0%})"
        report.warnings.append(
            f"{share} are older than what their key already had. The newer values are kept. If that is not what you "
            "expect, check that sequence_by names a column that grows with each change of a row, and look at one key: "
            "frazil key"
        )


def count_untimed(context: TableRun, contract: Contract, done: Normalize) -> int:
    """Count the deletes of new batches without a time of deletion, if a mart shows when rows were deleted.

    The report already counts deletes without the source's own time; the row itself may still have a time.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        done: the finished step; it names the batches.

    Cost: free if all deletes have the source's own time; else a scan of silver for their keys.
    """
    if not context.report.untimed_deletes or not any(map(added_columns, context.table.marts)):
        return 0
    spec = fold_spec(contract, None, since={}, partial=False)
    changes = with_event_time(context.spark.table(quote(*context.changes)), spec)
    after = 0 if done.rebuild else done.after
    is_new = f"{r.BATCH} > {int(after)} AND {r.BATCH} <= {int(done.upto)}"
    row = untimed_deletes(changes, spec, is_new).first()
    return 0 if row is None else int(row["untimed"])
