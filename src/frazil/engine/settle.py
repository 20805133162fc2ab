"""The report of a run before and after its steps: who takes part, what is known of each, what is worth a warning."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from frazil.engine.report import Failure, GoldReport, RunReport, TableReport
from frazil.gold.template import tables_of
from frazil.plan.notes import warnings
from frazil.steps import RefreshGold

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from frazil.plan.state import State
    from frazil.spec import Pipeline
    from frazil.steps import Step

_MANY_CHANGES: Final = 100
_LATE_SHARE: Final = 0.2


def report_of(pipeline: Pipeline, names: Collection[str], *, run_id: str = "") -> RunReport:
    """Begin the report of a run over some tables, and over the aggregates that read no others."""
    over = {gold.name: tables_of(pipeline, gold) for gold in pipeline.gold}
    return RunReport(
        pipeline=pipeline.pipeline,
        run_id=run_id,
        tables=[TableReport(table=table.name) for table in pipeline.tables if table.name in names],
        gold=[GoldReport(name=name, over=tables) for name, tables in over.items() if set(tables) <= {*names}],
    )


def settle(report: RunReport, pipeline: Pipeline, state: State, steps: Sequence[Step]) -> None:
    """Report what is known once the steps are planned: tables that failed, tables with nothing new, warnings."""
    busy = {step.table for step in steps if not isinstance(step, RefreshGold)}
    declared = {table.name: table for table in pipeline.tables}
    report.steps = len(steps)
    for table in report.tables:
        failed, stand = state.failed.get(table.table), state.tables.get(table.table)
        if failed is not None:
            table.outcome = "failed"
            table.errors.append(Failure.of(table.table, failed))
        elif stand is not None:
            table.batch = stand.bronze
            table.deferred, table.passed = len(stand.taken.deferred), [*stand.taken.passed]
            table.warnings += warnings(declared[table.table], stand)
            if table.table not in busy:
                table.outcome = "nothing new"
    for made in report.gold:
        if (wrong := state.failed.get(f"gold.{made.name}")) is not None:
            made.outcome = "failed"
            made.errors.append(Failure.of(f"{pipeline.lake.namespaces.gold}.{made.name}", wrong))
    leave_gold(report, {*state.failed})


def leave_gold(report: RunReport, failed: Collection[str]) -> None:
    """Report the aggregates that are left as they are because source tables failed."""
    for made in report.gold:
        if over := [name for name in made.over if name in failed]:
            made.outcome, made.because = "not started", f"{', '.join(over)} failed"


def warn_of_late(report: TableReport) -> None:
    """Warn where so many changes came late that the order is likely not the one the user means."""
    late = max((mart.late for mart in report.marts), default=0)
    if report.changes > _MANY_CHANGES and late > _LATE_SHARE * report.changes:
        share = f"{late:,} of {report.changes:,} changes ({late / report.changes:.0%})"
        report.warnings.append(
            f"{share} are older than what their key already had. The newer values stand; if that is not what you "
            "expect, check that sequence_by names a column that grows with each change of a row, and look at one key: "
            "frazil key"
        )


def planned_values(report: RunReport) -> dict[str, Any]:
    """Give what a plan says beside its steps as plain values, for JSON."""
    return {
        "passed": {table.table: dict(table.passed) for table in report.tables if table.passed},
        "warnings": {table.table: table.warnings for table in report.tables if table.warnings},
        "gold_left": {made.name: made.because for made in report.gold if made.outcome == "not started"},
        "errors": [asdict(failure) for failure in report.errors],
        "exit_code": report.exit_code,
    }
