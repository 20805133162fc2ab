"""Work on several tables at once, each session on one table at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from frazil.runner.table_run import TableRun

R = TypeVar("R")


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
