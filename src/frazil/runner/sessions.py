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
from frazil.runner.record import run_id
from frazil.runner.report import TableReport
from frazil.runner.table_run import TableRun
from frazil.spark.session import siblings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline, Table

R = TypeVar("R")
SETTINGS = {
    # Generated code references sets but embeds numbers. Batch numbers are passed as sets, so every batch reuses the
    # compiled code of the batch before it.
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    # A user's SQL fails on values that it cannot compute, and never returns NULL for them. Our own casts are correct
    # with either setting.
    "spark.sql.ansi.enabled": "true",
    # Spark derives constraints for every column after every operator. With nested CASE expressions they grow without
    # bounds: planning a batch of fifty rows took minutes. No plan of ours benefits from them.
    "spark.sql.constraintPropagation.enabled": "false",
    # Names and values may contain "${…}", which Spark would replace by a setting before it parses the SQL.
    "spark.sql.variable.substitute": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.autoBroadcastJoinThreshold": str(128 * 1024 * 1024),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings of Frazil's working sessions; a user's own session is not changed."""
_AGAIN_SECONDS = 0.2


def side_by_side(
    work: Callable[[TableRun], R], contexts: Iterable[TableRun], sessions: Sequence[SparkSession]
) -> list[R]:
    """Call ``work`` for every table, with as many tables in parallel as there are sessions.

    Args:
        work: called with a table's context; the context has the session to use.
        contexts: one for each table.
        sessions: each serves one table at a time.

    Returns:
        The results in the order of ``contexts``.

    Raises:
        Exception: the first exception of a call, after all calls have ended.
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


def in_reference_order(
    work: Callable[[TableRun], None], contexts: Sequence[TableRun], sessions: Sequence[SparkSession]
) -> None:
    """Call ``work`` as :func:`side_by_side` does; a table can wait for the tables before it.

    Tables start in the order of ``contexts``. The first unfinished table never waits, so a deadlock is impossible.

    Args:
        work: called with a table's context; ``wait_for`` of the context waits for an earlier table.
        contexts: one for each table, referenced tables first.
        sessions: each serves one table at a time.
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
    """Call ``work`` in another thread; on Ctrl-C cancel its jobs and wait until it has ended.

    Interrupts arrive in the main thread. If that thread talked to Java itself, a half-read answer would be mistaken for
    the answer to the next call. Branches of unfinished batches are dropped as after any error.

    Args:
        work: the function to call.
        sessions: sessions whose jobs are cancelled. Spark 3.5 cancels all jobs of the application.

    Raises:
        KeyboardInterrupt: after the work has ended, or immediately after a second interrupt.
    """
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="frazil")
    done = pool.submit(work)
    try:
        return done.result()
    except KeyboardInterrupt:
        while wait([done], timeout=_AGAIN_SECONDS).not_done:
            # Repeated, because the work continues with its next job.
            for session in sessions:
                cancel_jobs(session)
        raise
    finally:
        pool.shutdown(wait=False)


@contextmanager
def working_sessions(spark: SparkSession, count: int) -> Iterator[list[SparkSession]]:
    """Yield sessions on the same lake as another one, with Frazil's settings."""
    with siblings(spark, count) as sessions:
        for session in sessions:
            for name, value in SETTINGS.items():
                session.conf.set(name, value)
        yield sessions


@contextmanager
def table_session(pipeline: Pipeline, table: Table, spark: SparkSession) -> Iterator[TableRun]:
    """Lock the pipeline and yield the context for steps of one table.

    Args:
        pipeline: the declaration.
        table: one of its tables.
        spark: a session with its lake.

    Raises:
        BusyError: another run holds the pipeline for more than a minute.
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
