"""Run a plan: tables in parallel, the steps of each in order, its marts last, then the aggregates."""

from __future__ import annotations

import datetime as dt
import itertools
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from frazil.audit.certificates import Certifying, rules_of
from frazil.catalog.lock import run_lock
from frazil.catalog.trouble import as_frazil_error, translated
from frazil.errors import DeclarationError, Failure
from frazil.iceberg.metadata import DamagedTableError
from frazil.lake.commit import came_second
from frazil.plan.plan import input_bytes, read_only
from frazil.runner.capture import capture_once
from frazil.runner.compact import compact_appended
from frazil.runner.limits.rules import TableRules
from frazil.runner.maintain import maintain_due
from frazil.runner.options import RunOptions
from frazil.runner.planner import OutdatedPlanError, Planner
from frazil.runner.record import Record, count_untimed, fill_report, leave_gold, report_of, run_id, warn_of_late
from frazil.runner.report import RunFailedError, TableReport
from frazil.runner.sessions import in_reference_order, interruptibly, working_sessions
from frazil.runner.steps.alter import alter_table
from frazil.runner.steps.baseline import fold_changes
from frazil.runner.steps.gold import refresh
from frazil.runner.steps.ingest import ingest
from frazil.runner.steps.marts import update_mart
from frazil.runner.steps.normalize import OLD_KEY, contract_of, normalize
from frazil.runner.table_run import TableRun
from frazil.spark.session import adopt, refuse_connect, spark_session
from frazil.spec.amount import counted
from frazil.spec.check.check import check_declaration
from frazil.spec.sql.select import selected
from frazil.spec.sql.sql import referenced_first
from frazil.steps import AlterTable, FoldChanges, Ingest, Normalize, RefreshGold, UpdateMart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from frazil.errors import FrazilError
    from frazil.plan.plan import Plan
    from frazil.plan.policy import Policy
    from frazil.runner.batch.batch_stats import Normalized
    from frazil.runner.report import MartReport, RunReport
    from frazil.spec import Pipeline
    from frazil.spec.sql.select import Selection
    from frazil.steps import Step


_USUAL = RunOptions()


def run(
    pipeline: Pipeline,
    *,
    plan: Plan | None = None,
    spark: SparkSession | None = None,
    select: Sequence[str] = (),
    rebuild: bool = False,
    options: RunOptions = _USUAL,
) -> RunReport:
    """Bring every table of a pipeline up to date with its source.

    A failed table does not stop the others, and aggregates over healthy tables are refreshed. All failures are raised
    together at the end. Each run with work to do leaves a record, see :mod:`frazil.runner.record`.

    Args:
        pipeline: the declaration.
        plan: exact plan to execute; None lets the run plan itself.
        spark: session to work in, such as a notebook's; None starts one.
        select: names or patterns of tables, marts or aggregates; empty for all. A plan has its own selection.
        rebuild: rewrite silver and marts from bronze. A plan has its own setting.
        options: options of the run.

    Returns:
        The report with numbers for every selected table. It is empty without new files.

    Raises:
        RunFailedError: at least one table or aggregate failed. It has the report with all failures, the errors
            themselves, and the exit code of the worst. The next run continues where this one ended.
        OutdatedPlanError: the lake or the declaration has changed since the plan was made. A changed file fails only
            its own table.
        FrazilError: a problem with the declaration, the machine, the catalog or the lock, raised before any write.
        KeyboardInterrupt: Ctrl-C; the jobs of this run are cancelled, and the session stays usable.
    """
    check_declaration(pipeline)
    if plan is not None and plan.pipeline != pipeline:
        raise OutdatedPlanError("the declaration was changed")
    began = time.monotonic()
    # Before any write: the session may be unusable.
    refuse_connect(spark)
    adopted = None if spark is None else adopt(spark, pipeline)
    with run_lock(pipeline):
        session = adopted or spark_session(pipeline, short=_is_short(plan, options.policy), verbose=options.verbose)
        with working_sessions(session, options.policy.tables_at_once) as sessions:
            selection = selected(pipeline, select) if plan is None else plan.selection
            the_run = _Run(pipeline, sessions, selection, options)
            again = rebuild if plan is None else plan.rebuild
            with translated(pipeline):
                report = interruptibly(lambda: the_run.do(plan, rebuild=again, began=began), sessions)
    if report.errors:
        raise RunFailedError(report, the_run.errors)
    return report


def _is_short(plan: Plan | None, policy: Policy) -> bool:
    size = None if plan is None else plan.size_bytes
    return size is not None and size <= policy.short_run_bytes


class _Run:
    """State of one run: its sessions, contexts, report and failures."""

    def __init__(
        self, pipeline: Pipeline, sessions: Sequence[SparkSession], selection: Selection, options: RunOptions
    ) -> None:
        self.pipeline, self.sessions, self.selection = pipeline, sessions, selection
        self.listener, self.fail_fast, self.policy = options.listener, options.fail_fast, options.policy
        self.now = dt.datetime.now(dt.UTC)
        self.report = report_of(pipeline, selection, run_id=run_id(self.now))
        self.failed: dict[str, list[FrazilError]] = {}
        """Errors of each table, and of each aggregate as ``gold.<name>``."""
        self.contexts = {report.table: self._context(report) for report in self.report.tables}

    @property
    def errors(self) -> list[FrazilError]:
        """All errors, in the order of the report's failures."""
        names = [*self.contexts, *(f"gold.{made.name}" for made in self.report.gold)]
        return [error for name in names for error in self.failed.get(name, ())]

    def do(self, made: Plan | None, *, rebuild: bool, began: float) -> RunReport:
        """Plan, or verify a given plan, and execute all steps.

        Args:
            made: a plan to verify and execute; None plans first.
            rebuild: rewrite silver and marts from bronze.
            began: monotonic time of the start.
        """
        others = [self._context(TableReport(table=name)) for name in read_only(self.pipeline, self.selection)]
        planner = Planner(
            pipeline=self.pipeline,
            selection=self.selection,
            sessions=self.sessions,
            contexts=self.contexts | {context.table.name: context for context in others},
            rebuild=rebuild,
            uncaptured=capture_once(self.pipeline, self.contexts, self.listener) if made is None else {},
        )
        plan = planner.plan(made)
        self.failed = {name: [error] for name, error in plan.failed.items()}
        fill_report(self.report, plan)
        if self.listener:
            self.listener.planned(plan.steps)
        certifying = Certifying.of(self.pipeline, "run")
        record = Record(self.pipeline, self.report, self.now)
        record.start(plan.steps)
        try:
            self._do_tables(plan.steps)
            self._do_gold(plan)
            if certifying is not None:
                self._certify(certifying)
            self._keep_up()
        except BaseException:
            record.abort()
            raise
        self.report.seconds = time.monotonic() - began
        record.end()
        return self.report

    def _keep_up(self) -> None:
        """Maintain the written tables that are due; failed tables are skipped."""
        done = {one.table for one in self.report.tables if one.commits and not one.errors}
        done |= {made.name for made in self.report.gold if made.outcome == "done"}
        tell = partial(self.listener.began, "maintenance") if self.listener else lambda _: None
        maintain_due(self.sessions[0], self.pipeline, done, self.report, now=self.now, tell=tell)

    def _certify(self, certifying: Certifying) -> None:
        done = {
            table.name: {
                "files": made.files,
                "quarantined": made.quarantined,
                "rules": rules_of(table, made.broken_rules),
            }
            for made in self.report.tables
            if made.commits and (table := self.contexts[made.table].table)
        }
        if why := certifying.write(run_id=self.report.run_id, now=self.now, done=done):
            self.report.warnings.append(
                f"the certificate of this run cannot be written: {why}. The tables are as they should be; the next one "
                "covers them, and says that it did not see them being written"
            )

    def _context(self, report: TableReport) -> TableRun:
        return TableRun(
            spark=self.sessions[0],
            pipeline=self.pipeline,
            table=next(table for table in self.pipeline.tables if table.name == report.table),
            now=self.now,
            report=report,
            run_id=self.report.run_id,
            tell=partial(self.listener.began, report.table) if self.listener else lambda _: None,
            progress=partial(self.listener.progressed, report.table) if self.listener else lambda _: None,
            policy=self.policy,
        )

    def _do_tables(self, steps: Sequence[Step]) -> None:
        def work(context: TableRun) -> None:
            if self.fail_fast and self.failed:
                context.report.outcome = "not started"
                return
            mine = [step for step in steps if not isinstance(step, RefreshGold) and step.table == context.table.name]
            if errors := do_table(context, mine):
                self.failed[context.table.name] = errors
            if self.listener:
                self.listener.ended(context.report)

        busy = {step.table for step in steps if not isinstance(step, RefreshGold)}
        names = referenced_first(self.pipeline, (name for name in self.contexts if name in busy))
        in_reference_order(work, [self.contexts[name] for name in names], self.sessions)

    def _do_gold(self, plan: Plan) -> None:
        leave_gold(self.report, plan, {*self.failed})
        reports = {made.name: made for made in self.report.gold}
        for step in [step for step in plan.steps if isinstance(step, RefreshGold)]:
            made = reports[step.name]
            if made.because:
                continue
            if self.fail_fast and self.failed:
                made.outcome, made.because = "not started", "a failure came before, and --fail-fast is set"
            else:
                if self.listener:
                    self.listener.began(f"gold.{made.name}", "refresh")
                run_id, policy = self.report.run_id, self.policy
                if errors := refresh(self.sessions[0], self.pipeline, step, made, run_id=run_id, policy=policy):
                    self.failed[f"gold.{made.name}"] = errors
                    leave_gold(self.report, plan, {*self.failed})
                if self.listener:
                    self.listener.ended(made)


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
    failures = {name: _failure(context, error) for name, error in errors.items()}
    report.errors += [Failure.of(name, failure) for name, failure in failures.items()]
    report.outcome = "failed" if failures else "done"
    return [*failures.values()]


def _failure(context: TableRun, error: Exception) -> FrazilError:
    """Return an error as Frazil's own; files that another process removed meanwhile are no damage."""
    found = as_frazil_error(error, context.pipeline)
    if isinstance(found, DamagedTableError):
        with suppress(Exception):  # the lake cannot be asked: the table may be damaged
            if (path := context.overtaken()) is not None:
                return came_second(path)
    return found


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
