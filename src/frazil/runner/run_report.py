"""Fill the report of a run from its plan, and add warnings after its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.errors import Failure
from frazil.gold import tables_of
from frazil.marts.counts import untimed_deletes
from frazil.marts.fold_spec import with_event_time
from frazil.marts.layout import fold_spec
from frazil.plan.plan import gold_left
from frazil.runner.report import GoldReport, RunReport, TableReport
from frazil.spec.contract import added_columns
from frazil.spec.sql.names import quote
from frazil.steps import RefreshGold

if TYPE_CHECKING:
    from frazil.plan.plan import Plan
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import Pipeline
    from frazil.spec.sql.select import Selection
    from frazil.steps import Normalize

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
