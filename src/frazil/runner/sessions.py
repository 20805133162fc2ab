"""Sessions of a run: their settings, several tables at once, and Ctrl-C."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from frazil.catalog.lock import waiting_lock
from frazil.catalog.trouble import translated
from frazil.older_spark import cancel_jobs
from frazil.runner.report.record import run_id
from frazil.runner.report.report import TableReport
from frazil.runner.table_run import TableRun
from frazil.spark.session import siblings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline, Table

R = TypeVar("R")
SETTINGS = {
    # Sets are passed to generated code by reference, numbers are written into it: so batch numbers are given
    # as sets, and every batch runs the code that the one before it compiled.
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    # A user's SQL that cannot be computed of some values fails, and never gives NULL for them; our own casts are
    # right with either setting.
    "spark.sql.ansi.enabled": "true",
    # Spark works out what holds for every column after every step of a plan, and where CASE follows on CASE this grows
    # without bounds: a batch of fifty rows was planned for minutes. No plan of ours gains by it.
    "spark.sql.constraintPropagation.enabled": "false",
    # Names and values may have "${…}" in them, which Spark would put a setting in place of before it reads the SQL.
    "spark.sql.variable.substitute": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.autoBroadcastJoinThreshold": str(128 * 1024 * 1024),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings of the sessions that Frazil works in; a user's own session is left as it is."""
_AGAIN_SECONDS = 0.2


def side_by_side(
    work: Callable[[TableRun], R], contexts: Iterable[TableRun], sessions: Sequence[SparkSession]
) -> list[R]:
    """Do work for every table, as many tables at once as there are sessions.

    Args:
        work: is given a table's context with the session to use.
        contexts: one for each table.
        sessions: each is used for one table at a time.

    Returns:
        What the work returned, in the order of ``contexts``.

    Raises:
        Exception: the first that the work raised, after all of it has ended.
    """
    free: SimpleQueue[SparkSession] = SimpleQueue()
    for session in sessions:
        free.put(session)

    def one(context: TableRun) -> R:
        session = free.get()
        try:
            return work(replace(context, spark=session))
        finally:
            free.put(session)

    with ThreadPoolExecutor(max_workers=len(sessions)) as pool:
        return list(pool.map(one, contexts))


def in_turn(work: Callable[[TableRun], None], contexts: Sequence[TableRun], sessions: Sequence[SparkSession]) -> None:
    """Do work as :func:`side_by_side`; what waits for a table that stands before it waits until that one is done.

    Tables begin in their order, so the first that is not done waits for none.
    """
    done: dict[str, Event] = {}

    def one(context: TableRun) -> None:
        try:
            work(context)
        finally:
            done[context.table.name].set()

    def wait_for(earlier: frozenset[str], name: str) -> None:
        if name in earlier:
            done[name].wait()

    waiting = []
    for context in contexts:
        waiting.append(replace(context, wait_for=partial(wait_for, frozenset(done))))
        done[context.table.name] = Event()
    side_by_side(one, waiting, sessions)


def interruptibly(work: Callable[[], R], sessions: Sequence[SparkSession]) -> R:
    """Do work in another thread, and on Ctrl-C cancel what it does in some sessions and wait until it has ended.

    The main thread is where an interrupt arrives: if it talked to Java itself, half an answer would stay unread and be
    taken for that of the next question. Only jobs of ``sessions`` are cancelled (by Spark 3.5 all of the application),
    and branches of unfinished batches are dropped as after any error.

    Raises:
        KeyboardInterrupt: after the work has ended; at once when interrupted again.
    """
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="frazil")
    done = pool.submit(work)
    try:
        return done.result()
    except KeyboardInterrupt:
        while wait([done], timeout=_AGAIN_SECONDS).not_done:
            # Again and again, since the work goes from one job to the next.
            for session in sessions:
                cancel_jobs(session)
        raise
    finally:
        pool.shutdown(wait=False)


@contextmanager
def working_sessions(spark: SparkSession, count: int) -> Iterator[list[SparkSession]]:
    """Lend sessions beside another one, on the same lake, with the settings that Frazil works with."""
    with siblings(spark, count) as sessions:
        for session in sessions:
            for name, value in SETTINGS.items():
                session.conf.set(name, value)
        yield sessions


@contextmanager
def table_session(pipeline: Pipeline, table: Table, spark: SparkSession) -> Iterator[TableRun]:
    """Hold the pipeline's lock, and yield what steps of one table work with.

    Raises:
        BusyError: another run holds the pipeline, for a minute.
    """
    now = dt.datetime.now(dt.UTC)
    with waiting_lock(pipeline), working_sessions(spark, 1) as (session,), translated(pipeline):
        yield TableRun(
            spark=session,
            pipeline=pipeline,
            table=table,
            now=now,
            report=TableReport(table=table.name),
            run_id=run_id(now),
        )
