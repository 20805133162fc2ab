"""Follow the landing folders with a warm session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from frazil.errors import BusyError, FrazilError, worst_exit
from frazil.runner.capture import capture_once
from frazil.runner.options import RunOptions, WatchOptions
from frazil.runner.report.report import RunFailedError
from frazil.runner.run import run
from frazil.sources.kinds import source_of
from frazil.spec.sql.select import selected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

    from pyspark.sql import SparkSession

    from frazil.runner.report.report import RunReport
    from frazil.spec import Pipeline

_SLOWER = 1.5
_MOST_RETRY_SECONDS = 60.0
_USUAL = WatchOptions()


def watch(
    pipeline: Pipeline,
    spark: SparkSession,
    stop: Event,
    *,
    select: Sequence[str] = (),
    options: WatchOptions = _USUAL,
) -> int:
    """Run whenever files arrive, until told to stop; a run that has begun is always ended.

    The folders are listed every ``every_seconds`` of the options; while nothing arrives the pause
    grows to ``idle_seconds``. Only a listing that differs from the one before starts a run, so idling costs no Spark
    job. Between runs the pipeline is free: ``frazil maintain`` or another run can have it.

    A table that fails ends nothing. It is tried again when the listing changes; where the error may pass by itself, or
    files wait to be finished, also after a pause that grows from ``retry_seconds`` to a minute. While another process
    holds the pipeline, that is looked at every ``every_seconds``.

    Args:
        pipeline: the declaration.
        spark: a warm session.
        stop: set it, for example on SIGTERM, to end.
        select: as for a run.
        options: pauses, and who is told what happens.

    Returns:
        Exit code of the worst failure that stands at the end; 0 where none does.

    Raises:
        FrazilError: a run cannot begin, and trying again would not help; what was published stays.
    """
    troubles, again = _Troubles(options.tell), _Again(options.retry_seconds)
    to_run = RunOptions(listener=options.listener)
    seen: object = None
    pause = options.every_seconds
    while not stop.is_set():
        listing = _listing(pipeline, select)
        if listing == seen and not again.is_due():
            pause = min(pause * _SLOWER, options.idle_seconds)
            stop.wait(pause)
            continue
        again.arrived(is_new=listing != seen)
        seen = listing
        try:
            report, cure = run(pipeline, spark=spark, select=select, options=to_run), False
        except RunFailedError as error:
            report, cure = error.report, any(failure.retryable for failure in error.report.errors)
        except BusyError as error:
            # Whoever has the pipeline may let it go for a moment only, as upkeep does between two tables.
            troubles.wait_for(error)
            again.soon(options.every_seconds)
            stop.wait(options.every_seconds)
            continue
        except FrazilError as error:
            if not error.retryable:
                raise
            troubles.wait_for(error)
            again.later()
            continue
        is_new = troubles.now(report)
        outcomes = {*(table.outcome for table in report.tables), *(made.outcome for made in report.gold)}
        if is_new or "done" in outcomes:
            newest = max((modified for _, _, _, modified in listing), default=0)
            options.ran(report, max(0.0, time.time() - newest / 1e9))
            pause = options.every_seconds
        # Files that look cut off wait for a later run, so the listing is not done with while there are any.
        if cure or any(table.deferred for table in report.tables):
            again.later()
        stop.wait(pause)
    return troubles.exit_code


class _Again:
    """When to try again though nothing has arrived."""

    def __init__(self, first_seconds: float) -> None:
        self._first = self._seconds = first_seconds
        self._at: float | None = None

    def is_due(self) -> bool:
        return self._at is not None and time.monotonic() >= self._at

    def arrived(self, *, is_new: bool) -> None:
        self._at = None
        if is_new:
            self._seconds = self._first

    def soon(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def later(self) -> None:
        self._at = time.monotonic() + self._seconds
        self._seconds = min(2 * self._seconds, _MOST_RETRY_SECONDS)


class _Troubles:
    """What fails now; each change is told once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._failures: dict[str, tuple[str, int]] = {}
        self._waits_for: FrazilError | None = None

    @property
    def exit_code(self) -> int:
        waits = [] if self._waits_for is None else [self._waits_for.exit_code]
        return worst_exit([*(code for _, code in self._failures.values()), *waits])

    def now(self, report: RunReport) -> bool:
        """Take in what a run failed at; give whether something fails that did not fail before."""
        now = {failure.name: (f"{failure}", failure.exit_code) for failure in report.errors}
        new = [text for name, (text, _) in now.items() if self._failures.get(name, ("", 0))[0] != text]
        if self._waits_for is not None:
            self._waits_for = None
            self._tell("the wait is over")
        for text in new:
            self._tell(text)
        for name in self._failures.keys() - now.keys():
            self._tell(f"{name}: right again")
        self._failures = now
        return bool(new)

    def wait_for(self, error: FrazilError) -> None:
        """Take in why a run cannot begin yet."""
        if self._waits_for is None or self._waits_for.message != error.message:
            self._tell(f"waiting: [{error.code}] {error.message}")
        self._waits_for = error


def _listing(pipeline: Pipeline, select: Sequence[str]) -> frozenset[tuple[str, str, int, int]]:
    """Land what servers have; return (table, address, size, time) of each file there is, or of a source its trouble."""
    names = selected(pipeline, select).tables
    uncaptured = capture_once(pipeline, names)
    found = {(name, error.message, 0, 0) for name, error in uncaptured.items()}
    for table in pipeline.tables:
        if table.name in names:
            try:
                files = source_of(table).list(pipeline.folder).files
            except FrazilError as error:
                found.add((table.name, error.message, 0, 0))
            else:
                found.update((table.name, file.uri, file.size_bytes, file.modified_ns) for file in files)
    return frozenset(found)
