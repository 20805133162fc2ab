"""Let Ctrl-C end a run from Python, and leave the session as good as before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from frazil.older_spark import cancel_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

_AGAIN_SECONDS = 0.2

R = TypeVar("R")


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
