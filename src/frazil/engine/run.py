"""Do what a plan says: tables side by side, the steps of each in order, then the aggregates."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar, assert_never

from frazil.engine.compact import merge_batches
from frazil.engine.context import Context
from frazil.engine.gold import refresh_gold
from frazil.engine.marts import update_mart
from frazil.engine.refine import contract_of, refine
from frazil.engine.report import MartReport, RunReport, TableReport
from frazil.engine.state import read_gold, read_state
from frazil.engine.take import take_files
from frazil.errors import DeclarationError
from frazil.lake.lock import lock
from frazil.lake.session import adopt, siblings, spark_session
from frazil.lake.trouble import told
from frazil.plan.build import build
from frazil.plan.size import size_bytes
from frazil.plan.state import State
from frazil.spec import CATALOG
from frazil.spec.check import check
from frazil.spec.names import quote
from frazil.spec.select import selected
from frazil.steps import Refine, RefreshGold, TakeFiles, UpdateMart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline
    from frazil.steps import Step

SETTINGS = {
    # Sets are passed to generated code by reference, numbers are written into it: so batch numbers are given
    # as sets, and every batch runs the code that the one before it compiled.
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    # A user's expression that finds nothing gives NULL; our own casts are checked one by one.
    "spark.sql.ansi.enabled": "false",
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


class Listener(Protocol):
    """Who is told what happens. Called from several threads; must not raise."""

    def planned(self, steps: Sequence[Step]) -> None:
        """Called once, before anything is done."""

    def began(self, table: str, what: str) -> None:
        """Called when a part of a table's work begins."""

    def ended(self, report: TableReport) -> None:
        """Called when a table is done, or failed."""


def run(
    pipeline: Pipeline,
    *,
    spark: SparkSession | None = None,
    select: Sequence[str] = (),
    rebuild: bool = False,
    listener: Listener | None = None,
    short: bool = False,
    verbose: bool = False,
) -> RunReport:
    """Bring every table of a pipeline level with its source.

    Args:
        pipeline: the declaration.
        spark: a session to work in, such as a notebook's; left out, one is started.
        select: names or patterns of tables, marts or aggregates; empty for all.
        rebuild: make silver and marts anew from bronze.
        listener: is told what happens.
        short: where a session is started, start it for a short run: see :func:`spark_session`.
        verbose: let Spark write its own messages to the terminal, where a session is started.

    Returns:
        What was done, in numbers. With nothing new, no steps and no commit.

    Raises:
        FrazilError: with its exit code; tables that did not fail are level all the same, and the next run
            takes up where this one ended.
    """
    check(pipeline)
    began = time.monotonic()
    with lock(pipeline):
        session = adopt(spark, pipeline) if spark is not None else spark_session(pipeline, short=short, verbose=verbose)
        with working_sessions(session, _TABLES_AT_ONCE) as sessions:
            report = _run(pipeline, sessions, selected(pipeline, select), listener, rebuild=rebuild)
    report.seconds = time.monotonic() - began
    return report


def _run(
    pipeline: Pipeline,
    sessions: Sequence[SparkSession],
    names: Sequence[str],
    listener: Listener | None,
    *,
    rebuild: bool,
) -> RunReport:
    now = dt.datetime.now(dt.UTC)
    contexts = {
        table.name: Context(
            spark=sessions[0],
            pipeline=pipeline,
            table=table,
            now=now,
            report=TableReport(table=table.name),
            tell=_teller(listener, table.name),
        )
        for table in pipeline.tables
        if table.name in names
    }
    # A new catalog makes its own tables when it is first asked, and two sessions at once would collide.
    for session in sessions:
        session.catalog.databaseExists(quote(CATALOG, pipeline.lake.namespaces.bronze))
    read = partial(read_state, rebuild=rebuild)
    states = dict(zip(contexts, _side_by_side(read, contexts.values(), sessions), strict=True))
    state = State(tables=states, gold=read_gold(sessions[0], pipeline))
    steps = build(pipeline, state, tables=names, rebuild=names if rebuild else ())
    if listener:
        listener.planned(steps)
    report = RunReport(pipeline=pipeline.pipeline, steps=len(steps))

    def work(context: Context) -> BaseException | None:
        mine = [step for step in steps if not isinstance(step, RefreshGold) and step.table == context.table.name]
        return _do_table(context, mine, listener)

    busy = [
        context
        for context in contexts.values()
        if any(getattr(step, "table", None) == context.table.name for step in steps)
    ]
    failures = [failure for failure in _side_by_side(work, busy, sessions) if failure is not None]
    report.tables = [context.report for context in busy]
    if not failures:
        for step in steps:
            if isinstance(step, RefreshGold):
                refresh_gold(sessions[0], pipeline, step)
                report.gold.append(step.name)
    if failures:
        raise told(failures[0]) or failures[0]
    return report


def _do_table(context: Context, steps: Sequence[Step], listener: Listener | None) -> BaseException | None:
    began = time.monotonic()
    group = f"frazil {context.table.name} {uuid.uuid4().hex}"
    _count_jobs_as(group, context.spark)
    size = size_bytes(steps)
    is_small = size is not None and size <= SMALL_BYTES
    for name, value in _SMALL.items():
        context.spark.conf.set(name, value) if is_small else context.spark.conf.unset(name)
    try:
        _do(context, steps, group, at_once=is_small)
    except Exception as error:  # noqa: BLE001 - every table's failure is kept, so that others can go on
        failure = told(error) or error
        context.report.error = str(failure)
        return failure
    finally:
        context.forget()
        context.report.seconds = time.monotonic() - began
        context.report.jobs = _jobs_of(group, context.spark)
        if listener:
            listener.ended(context.report)
    return None


def _do(context: Context, steps: Sequence[Step], group: str, *, at_once: bool) -> None:
    """Do the steps of a table in order; small batches go into all its marts at once, as they leave cores idle."""
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
            case RefreshGold():
                raise DeclarationError(f"{step.name} is an aggregate, not a step of table {context.table.name!r}")
            case _:
                assert_never(step)
    if marts:
        settled = contract or contract_of(context)

        def update(step: UpdateMart) -> MartReport:
            _count_jobs_as(group, context.spark)
            return update_mart(context, step, settled)

        with ThreadPoolExecutor(max_workers=len(marts) if at_once else 1) as pool:
            updates = [pool.submit(update, step) for step in marts]
        context.report.marts = [done.result() for done in updates if done.exception() is None]
        for done in updates:
            done.result()
        context.report.batch = marts[-1].upto
    spans = [(step.after, step.upto) for step in steps if isinstance(step, Refine | UpdateMart)]
    if spans:
        merge_batches(context, min(after for after, _ in spans), max(upto for _, upto in spans))


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


def _teller(listener: Listener | None, table: str) -> Callable[[str], None]:
    return (lambda what: listener.began(table, what)) if listener else (lambda _: None)


def _count_jobs_as(group: str, spark: SparkSession) -> None:
    """Count the Spark jobs that this thread starts from now on, where the session can tell."""
    if (context := getattr(spark, "_sc", None)) is not None:
        context.setJobGroup(group, group)


def _jobs_of(group: str, spark: SparkSession) -> int:
    context = getattr(spark, "_sc", None)
    return 0 if context is None else len(context.statusTracker().getJobIdsForGroup(group))
