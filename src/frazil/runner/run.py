"""Run a plan: tables in parallel, the steps of each in order, then the aggregates."""

from __future__ import annotations

import datetime as dt
import time
from functools import partial
from typing import TYPE_CHECKING

from frazil.audit.certificates import Certifying, rules_of
from frazil.catalog.lock import run_lock
from frazil.catalog.trouble import translated
from frazil.plan.plan import read_only
from frazil.runner.capture import capture_once
from frazil.runner.maintain import maintain_due
from frazil.runner.options import RunOptions
from frazil.runner.planner import OutdatedPlanError, Planner
from frazil.runner.record import Record, fill_report, leave_gold, report_of, run_id
from frazil.runner.report import RunFailedError, TableReport
from frazil.runner.sessions import in_reference_order, interruptibly, working_sessions
from frazil.runner.steps.gold import refresh
from frazil.runner.table_run import TableRun
from frazil.runner.table_steps import do_table
from frazil.spark.session import adopt, refuse_connect, spark_session
from frazil.spec.check.check import check_declaration
from frazil.spec.sql.select import selected
from frazil.spec.sql.sql import referenced_first
from frazil.steps import RefreshGold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from frazil.errors import FrazilError
    from frazil.plan.plan import Plan
    from frazil.plan.policy import Policy
    from frazil.runner.report import RunReport
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
