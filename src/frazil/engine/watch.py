"""Follow the landing folders with a warm session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from frazil.engine.run import run
from frazil.sources.dms import list_files
from frazil.spec.select import selected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

    from pyspark.sql import SparkSession

    from frazil.engine.report import RunReport
    from frazil.engine.run import Listener
    from frazil.spec import Pipeline

_SLOWER = 1.5


def watch(
    pipeline: Pipeline,
    spark: SparkSession,
    stop: Event,
    *,
    select: Sequence[str] = (),
    every_seconds: float = 0.25,
    idle_seconds: float = 0.5,
    listener: Listener | None = None,
    ran: Callable[[RunReport, float], None] = lambda _report, _lag_seconds: None,
) -> None:
    """Run whenever files arrive, until told to stop; a run that has begun is always ended.

    The folders are listed every ``every_seconds``; while nothing arrives the pause grows to
    ``idle_seconds``. Only a listing that differs from the one before starts a run, so idling costs no Spark
    job. Between runs the pipeline is free: ``frazil maintain`` or another run can have it.

    Args:
        pipeline: the declaration.
        spark: a warm session.
        stop: set it, for example on SIGTERM, to end.
        select: as for a run.
        every_seconds: pause between looks while files arrive.
        idle_seconds: longest pause while nothing does.
        listener: is told what each run does.
        ran: called after each run that did something, with its report and its lag: seconds from the newest
            taken file's modification to the moment its rows could be read.

    Raises:
        FrazilError: a run failed; what was published stays.
    """
    seen: object = None
    pause = every_seconds
    while not stop.is_set():
        listing = _listing(pipeline, select)
        if listing != seen:
            report = run(pipeline, spark=spark, select=select, listener=listener)
            if report.steps:
                newest = max((modified for _, _, modified in listing), default=0)
                ran(report, max(0.0, time.time() - newest / 1e9))
                pause = every_seconds
            # Files that look cut off wait for a later run, so the listing is not done with while there are any.
            seen = None if any(table.deferred for table in report.tables) else listing
        else:
            pause = min(pause * _SLOWER, idle_seconds)
        stop.wait(pause)


def _listing(pipeline: Pipeline, select: Sequence[str]) -> frozenset[tuple[str, int, int]]:
    names = selected(pipeline, select)
    return frozenset(
        (file.uri, file.size_bytes, file.modified_ns)
        for table in pipeline.tables
        if table.name in names
        for file in list_files(table.source, pipeline.folder).files
    )
