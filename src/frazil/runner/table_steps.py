"""Execute the steps of one table in order, its marts last and in parallel."""

from __future__ import annotations

import itertools
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from frazil.catalog.trouble import as_frazil_error
from frazil.errors import DeclarationError, Failure
from frazil.plan.plan import input_bytes
from frazil.runner.compact import compact_appended
from frazil.runner.limits.rules import TableRules
from frazil.runner.record import count_untimed, warn_of_late
from frazil.runner.steps.alter import alter_table
from frazil.runner.steps.baseline import fold_changes
from frazil.runner.steps.ingest import ingest
from frazil.runner.steps.marts import update_mart
from frazil.runner.steps.normalize import OLD_KEY, contract_of, normalize
from frazil.spec.amount import counted
from frazil.steps import AlterTable, FoldChanges, Ingest, Normalize, RefreshGold, UpdateMart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from frazil.errors import FrazilError
    from frazil.runner.batch.batch_stats import Normalized
    from frazil.runner.report import MartReport
    from frazil.runner.table_run import TableRun
    from frazil.steps import Step


def do_table(context: TableRun, steps: Sequence[Step]) -> list[FrazilError]:
    """Execute a table's steps; return the failures, which its report has too."""
    report, began = context.report, time.monotonic()
    group = f"frazil {context.table.name} {uuid.uuid4().hex}"
    errors: dict[str, Exception] = {}
    try:
        _count_jobs_as(group, context.spark)
        size = input_bytes(steps)
        is_small = size is not None and size <= context.policy.small_run_bytes
        if is_small:
            context.work_small()
        errors = _do(context, steps, group)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this table's
        errors = {context.table.name: error}
    finally:
        # A dead JVM fails here too; the failure above is the one to report.
        with suppress(Exception):
            context.work_large()
            context.cache.release()
            report.jobs = _jobs_of(group, context.spark)
        report.seconds = time.monotonic() - began
    warn_of_late(report)
    failures = {name: as_frazil_error(error, context.pipeline) for name, error in errors.items()}
    report.errors += [Failure.of(name, failure) for name, failure in failures.items()]
    report.outcome = "failed" if failures else "done"
    return [*failures.values()]


def _do(context: TableRun, steps: Sequence[Step], group: str) -> dict[str, Exception]:
    """Execute the steps of a table in order.

    Returns:
        Mart -> error. A failure before the marts is raised.
    """
    contract, ingested, normalized = None, None, None
    _fold(context, steps)
    due = {step.mart for step in steps if isinstance(step, UpdateMart)}
    is_remade = any(isinstance(step, Normalize) and step.rebuild for step in steps)
    for step in steps:
        match step:
            case Ingest():
                ingested = ingest(context, step)
                context.report.batch = step.batch
            case Normalize():
                contract = contract_of(context)
                normalized = normalize(context, step, contract, ingested)
                context.report.untimed_deletes = count_untimed(context, contract, step)
                context.report.batch = step.upto
                steps = _as_normalized(steps, step, normalized)
            case AlterTable():
                if step.mart not in due:
                    alter_table(context, step, notes=bool(step.mart) or not is_remade)
            case UpdateMart() | FoldChanges():
                pass  # below, all of them; the fold was before
            case RefreshGold():
                raise DeclarationError(f"{step.name} is an aggregate, not a step of table {context.table.name!r}")
            case _:
                assert_never(step)
    errors: dict[str, Exception] = {}
    if due:
        contract = contract or contract_of(context)
        rules = TableRules(context, contract, [step.mart for step in steps if isinstance(step, UpdateMart)])
        update = partial(update_mart, context, contract=contract, rules=rules, normalized=normalized)
        errors = _update_marts(context, steps, update, rules, group)
    spans = [(step.after, step.upto) for step in steps if isinstance(step, Normalize | UpdateMart)]
    if spans and not errors:
        compact_appended(context, min(after for after, _ in spans), max(upto for _, upto in spans))
    return errors


def _fold(context: TableRun, steps: Sequence[Step]) -> None:
    """Fold old changes, before new files are read."""
    for step in steps:
        if isinstance(step, FoldChanges):
            fold_changes(context, contract_of(context), step)


def _as_normalized(steps: Sequence[Step], step: Normalize, done: Normalized) -> Sequence[Step]:
    """Return the steps of a table; an unplanned rebuild of silver turns the marts' steps into rebuilds."""
    if done.after >= step.after:
        return steps
    return [
        replace(one, after=0, rebuild=True, reason=OLD_KEY) if isinstance(one, UpdateMart) else one for one in steps
    ]


def _update_marts(
    context: TableRun,
    steps: Sequence[Step],
    update_one: Callable[[UpdateMart], MartReport],
    rules: TableRules,
    group: str,
) -> dict[str, Exception]:
    """Alter and update the marts, in parallel for a small batch, which leaves cores idle.

    A failed mart does not stop the others. The mart on which the table's rules are checked comes first.
    """
    marts = [step for step in steps if isinstance(step, UpdateMart)]
    alters = {step.mart: step for step in steps if isinstance(step, AlterTable)}
    done = itertools.count(1)

    def update(step: UpdateMart) -> MartReport:
        _count_jobs_as(group, context.spark)
        with rules.work_on(step.mart):
            if step.mart in alters:
                alter_table(context, alters[step.mart])
            report = update_one(step)
        context.progress(f"{next(done)} of {counted(len(marts), 'mart')} done")
        return report

    with ThreadPoolExecutor(max_workers=len(marts) if context.own_settings else 1) as pool:
        submitted = {step: pool.submit(update, step) for step in rules.in_order(marts)}
    updates = {step.mart: submitted[step] for step in marts}
    errors = {mart: error for mart, update in updates.items() if (error := update.exception()) is not None}
    context.report.marts = [update.result() for mart, update in updates.items() if mart not in errors]
    context.report.batch = marts[-1].upto
    space = context.pipeline.lake.namespaces.marts
    for error in errors.values():
        if not isinstance(error, Exception):
            raise error
    return {f"{space}.{mart}": error for mart, error in errors.items() if isinstance(error, Exception)}


def _count_jobs_as(group: str, spark: SparkSession) -> None:
    """Count the Spark jobs that this thread starts from now on, if the session supports job groups."""
    if (context := getattr(spark, "_sc", None)) is not None:
        context.setJobGroup(group, group)


def _jobs_of(group: str, spark: SparkSession) -> int:
    context = getattr(spark, "_sc", None)
    return 0 if context is None else len(context.statusTracker().getJobIdsForGroup(group))
