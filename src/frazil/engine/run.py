"""Do what a plan says: tables side by side, the steps of each in order, then the aggregates."""

from __future__ import annotations

import datetime as dt
import itertools
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar, assert_never

from frazil.engine.alter import alter_mart
from frazil.engine.compact import merge_batches
from frazil.engine.context import Context
from frazil.engine.gold import refresh
from frazil.engine.interrupt import interruptibly
from frazil.engine.marts import update_mart
from frazil.engine.record import Record, run_id
from frazil.engine.refine import contract_of, refine
from frazil.engine.repair import drop_damaged
from frazil.engine.report import Failure, RunFailedError
from frazil.engine.settle import leave_gold, report_of, settle, warn_of_late
from frazil.engine.state import read_gold, read_state
from frazil.engine.take import take_files
from frazil.errors import DeclarationError, FrazilError
from frazil.lake.lock import lock
from frazil.lake.session import adopt, refuse_connect, siblings, spark_session
from frazil.lake.trouble import explained, translated
from frazil.plan.build import build
from frazil.plan.size import size_bytes
from frazil.plan.state import State, TableState, gold_problems
from frazil.spec import CATALOG
from frazil.spec.amount import counted
from frazil.spec.check import check
from frazil.spec.names import quote
from frazil.spec.select import selected
from frazil.steps import AlterMart, Refine, RefreshGold, TakeFiles, UpdateMart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from frazil.engine.listener import Listener
    from frazil.engine.report import MartReport, RunReport
    from frazil.silver.contract import Contract
    from frazil.spec import Pipeline, Table
    from frazil.steps import Step

SETTINGS = {
    # Sets are passed to generated code by reference, numbers are written into it: so batch numbers are given
    # as sets, and every batch runs the code that the one before it compiled.
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    # A user's SQL that cannot be computed of some values fails, and never gives NULL for them; our own casts are
    # right with either setting.
    "spark.sql.ansi.enabled": "true",
    # Names and values may have "${…}" in them, which Spark would put a setting in place of before it reads the SQL.
    "spark.sql.variable.substitute": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.autoBroadcastJoinThreshold": str(128 * 1024 * 1024),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings of the sessions that Frazil works in; a user's own session is left as it is."""

SMALL_BYTES = 64_000_000
"""Batches up to this size are planned once and in few tasks: adapting a plan costs more than it can gain."""

_SMALL = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}

_TABLES_AT_ONCE = 2

R = TypeVar("R")


def run(
    pipeline: Pipeline,
    *,
    spark: SparkSession | None = None,
    select: Sequence[str] = (),
    rebuild: bool = False,
    fail_fast: bool = False,
    listener: Listener | None = None,
    short: bool = False,
    verbose: bool = False,
) -> RunReport:
    """Bring every table of a pipeline level with its source.

    A table that fails stops no other, and aggregates over sound tables are refreshed. What failed is raised at the end,
    together: see *Raises*. Each run that does something leaves a record, see :mod:`frazil.engine.record`.

    Args:
        pipeline: the declaration.
        spark: a session to work in, such as a notebook's; left out, one is started.
        select: names or patterns of tables, marts or aggregates; empty for all.
        rebuild: write silver and marts again from bronze.
        fail_fast: begin no further table, and no aggregate, once something failed.
        listener: is told what happens.
        short: where a session is started, start it for a short run: see :func:`spark_session`.
        verbose: let Spark write its own messages to the terminal, where a session is started.

    Returns:
        What was done, in numbers, for every selected table. With nothing new, no steps and no commit.

    Raises:
        RunFailedError: one or more tables or aggregates failed, however many; it has the report with all failures, the
            errors themselves, and the exit code of the worst. The next run takes up where this one ended.
        FrazilError: any other is raised before a table is touched: the declaration, the machine, the catalog, or a lock
            that another run holds.
        KeyboardInterrupt: Ctrl-C; the jobs of this run are cancelled, and the session can be used on.
    """
    check(pipeline)
    began = time.monotonic()
    # Before anything is written: a session may be one that cannot be worked with.
    refuse_connect(spark)
    adopted = None if spark is None else adopt(spark, pipeline)
    with lock(pipeline):
        session = adopted or spark_session(pipeline, short=short, verbose=verbose)
        with working_sessions(session, _TABLES_AT_ONCE) as sessions:
            the_run = _Run(pipeline, sessions, selected(pipeline, select), listener, fail_fast=fail_fast)
            with translated(pipeline):
                report = interruptibly(lambda: the_run.do(rebuild=rebuild, began=began), sessions)
    if report.errors:
        raise RunFailedError(report, the_run.errors)
    return report


class _Run:
    """One run: what it works with, and what has failed so far."""

    def __init__(
        self,
        pipeline: Pipeline,
        sessions: Sequence[SparkSession],
        names: Sequence[str],
        listener: Listener | None,
        *,
        fail_fast: bool,
    ) -> None:
        self.pipeline, self.sessions, self.names = pipeline, sessions, names
        self.listener, self.fail_fast = listener, fail_fast
        self.now = dt.datetime.now(dt.UTC)
        self.report = report_of(pipeline, names, run_id=run_id(self.now))
        self.failed: dict[str, list[FrazilError]] = {}
        """Errors of each table, and of each aggregate as ``gold.<name>``."""
        self.contexts = {table.name: self._context(table) for table in pipeline.tables if table.name in names}

    @property
    def errors(self) -> list[FrazilError]:
        """All errors, in the order of the report's failures."""
        names = [*self.contexts, *(f"gold.{made.name}" for made in self.report.gold)]
        return [error for name in names for error in self.failed.get(name, ())]

    def do(self, *, rebuild: bool, began: float) -> RunReport:
        """Plan and do everything."""
        state = self._state(rebuild=rebuild)
        steps = build(self.pipeline, state, tables=self.names, rebuild=self.names if rebuild else ())
        settle(self.report, self.pipeline, state, steps)
        if self.listener:
            self.listener.planned(steps)
        record = Record(self.pipeline, self.report, self.now)
        record.start(steps)
        try:
            self._do_tables(steps)
            self._do_gold(steps)
        except BaseException:
            record.abort()
            raise
        self.report.seconds = time.monotonic() - began
        record.end()
        return self.report

    def _context(self, table: Table) -> Context:
        return Context(
            spark=self.sessions[0],
            pipeline=self.pipeline,
            table=table,
            now=self.now,
            report=next(report for report in self.report.tables if report.table == table.name),
            run_id=self.report.run_id,
            tell=partial(self.listener.began, table.name) if self.listener else lambda _: None,
            progress=partial(self.listener.progressed, table.name) if self.listener else lambda _: None,
        )

    def _state(self, *, rebuild: bool) -> State:
        """Read where the tables stand; a table for which that fails is in ``failed``."""
        # A new catalog makes its own tables when it is first asked, and two sessions at once would collide.
        for session in self.sessions:
            session.catalog.databaseExists(quote(CATALOG, self.pipeline.lake.namespaces.bronze))

        def read(context: Context) -> TableState | FrazilError:
            try:
                if rebuild:
                    drop_damaged(context.spark, self.pipeline, [context.table.name])
                return read_state(context, rebuild=rebuild)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this table's
                return explained(error, self.pipeline)

        found = dict(zip(self.contexts, _side_by_side(read, self.contexts.values(), self.sessions), strict=True))
        tables = {name: state for name, state in found.items() if isinstance(state, TableState)}
        gold = read_gold(self.sessions[0], self.pipeline)
        failed = {name: state for name, state in found.items() if isinstance(state, FrazilError)}
        failed |= gold_problems(self.pipeline, tables, gold)
        self.failed = {name: [error] for name, error in failed.items()}
        return State(tables=tables, failed=failed, gold=gold)

    def _do_tables(self, steps: Sequence[Step]) -> None:
        def work(context: Context) -> None:
            if self.fail_fast and self.failed:
                context.report.outcome = "not started"
                return
            mine = [step for step in steps if not isinstance(step, RefreshGold) and step.table == context.table.name]
            if errors := _do_table(context, mine):
                self.failed[context.table.name] = errors
            if self.listener:
                self.listener.ended(context.report)

        busy = {step.table for step in steps if not isinstance(step, RefreshGold)}
        _side_by_side(work, [context for name, context in self.contexts.items() if name in busy], self.sessions)

    def _do_gold(self, steps: Sequence[Step]) -> None:
        leave_gold(self.report, frozenset(self.failed))
        wanted = {step.name: step for step in steps if isinstance(step, RefreshGold)}
        for made in self.report.gold:
            if made.name not in wanted or made.because:
                continue
            if self.fail_fast and self.failed:
                made.outcome, made.because = "not started", "a failure came before, and --fail-fast is set"
            else:
                if self.listener:
                    self.listener.began(f"gold.{made.name}", "refresh")
                if errors := refresh(self.sessions[0], self.pipeline, wanted[made.name], made, self.report.run_id):
                    self.failed[f"gold.{made.name}"] = errors
                if self.listener:
                    self.listener.ended(made)


def _do_table(context: Context, steps: Sequence[Step]) -> list[FrazilError]:
    """Do a table's steps; give what failed, which is in its report too."""
    report, began = context.report, time.monotonic()
    group = f"frazil {context.table.name} {uuid.uuid4().hex}"
    errors: dict[str, Exception] = {}
    try:
        _count_jobs_as(group, context.spark)
        size = size_bytes(steps)
        is_small = size is not None and size <= SMALL_BYTES
        for name, value in _SMALL.items():
            context.spark.conf.set(name, value) if is_small else context.spark.conf.unset(name)
        errors = _do(context, steps, group, at_once=is_small)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this table's
        errors = {context.table.name: error}
    finally:
        # A JVM that is gone fails here too, and has failed above.
        with suppress(Exception):
            context.forget()
            report.jobs = _jobs_of(group, context.spark)
        report.seconds = time.monotonic() - began
    warn_of_late(report)
    failures = {name: explained(error, context.pipeline) for name, error in errors.items()}
    report.errors += [Failure.of(name, failure) for name, failure in failures.items()]
    report.outcome = "failed" if failures else "done"
    return [*failures.values()]


def _do(context: Context, steps: Sequence[Step], group: str, *, at_once: bool) -> dict[str, Exception]:
    """Do the steps of a table in order; small batches go into all its marts at once, as they leave cores idle.

    Returns:
        Mart -> why it failed. What fails before the marts is raised.
    """
    contract = None
    marts: list[UpdateMart] = []
    for step in steps:
        match step:
            case TakeFiles():
                take_files(context, step)
                context.report.deferred = len(step.deferred)
                context.report.batch = step.batch
            case Refine():
                contract = contract_of(context)
                refine(context, step, contract)
                context.report.batch = step.upto
            case UpdateMart():
                marts.append(step)
            case AlterMart():
                alter_mart(context, step)
            case RefreshGold():
                raise DeclarationError(f"{step.name} is an aggregate, not a step of table {context.table.name!r}")
            case _:
                assert_never(step)
    errors = _update_marts(context, marts, contract or contract_of(context), group, at_once=at_once) if marts else {}
    spans = [(step.after, step.upto) for step in steps if isinstance(step, Refine | UpdateMart)]
    if spans and not errors:
        merge_batches(context, min(after for after, _ in spans), max(upto for _, upto in spans))
    return errors


def _update_marts(
    context: Context, steps: Sequence[UpdateMart], contract: Contract, group: str, *, at_once: bool
) -> dict[str, Exception]:
    done = itertools.count(1)

    def update(step: UpdateMart) -> MartReport:
        _count_jobs_as(group, context.spark)
        report = update_mart(context, step, contract)
        context.progress(f"{next(done)} of {counted(len(steps), 'mart')} done")
        return report

    with ThreadPoolExecutor(max_workers=len(steps) if at_once else 1) as pool:
        updates = {step.mart: pool.submit(update, step) for step in steps}
    errors = {mart: error for mart, update in updates.items() if (error := update.exception()) is not None}
    context.report.marts = [update.result() for mart, update in updates.items() if mart not in errors]
    context.report.batch = steps[-1].upto
    space = context.pipeline.lake.namespaces.marts
    for error in errors.values():
        if not isinstance(error, Exception):
            raise error
    return {f"{space}.{mart}": error for mart, error in errors.items() if isinstance(error, Exception)}


@contextmanager
def working_sessions(spark: SparkSession, count: int) -> Iterator[list[SparkSession]]:
    """Lend sessions beside another one, on the same lake, with the settings that Frazil works with."""
    with siblings(spark, count) as sessions:
        for session in sessions:
            for name, value in SETTINGS.items():
                session.conf.set(name, value)
        yield sessions


def _side_by_side(
    work: Callable[[Context], R], contexts: Iterable[Context], sessions: Sequence[SparkSession]
) -> list[R]:
    """Work on as many tables at once as there are sessions, each session on one table at a time."""
    free: SimpleQueue[SparkSession] = SimpleQueue()
    for session in sessions:
        free.put(session)

    def one(context: Context) -> R:
        session = free.get()
        try:
            return work(replace(context, spark=session))
        finally:
            free.put(session)

    with ThreadPoolExecutor(max_workers=len(sessions)) as pool:
        return list(pool.map(one, contexts))


def _count_jobs_as(group: str, spark: SparkSession) -> None:
    """Count the Spark jobs that this thread starts from now on, where the session can tell."""
    if (context := getattr(spark, "_sc", None)) is not None:
        context.setJobGroup(group, group)


def _jobs_of(group: str, spark: SparkSession) -> int:
    context = getattr(spark, "_sc", None)
    return 0 if context is None else len(context.statusTracker().getJobIdsForGroup(group))
