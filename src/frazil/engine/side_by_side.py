"""Work on several tables at once, each session on one table at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from frazil.engine.table_run import TableRun

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
