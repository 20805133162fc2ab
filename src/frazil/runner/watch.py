"""Watch the landing folders with a warm session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from frazil.errors import BusyError, FrazilError, worst_exit
from frazil.runner.capture import capture_once
from frazil.runner.options import RunOptions, WatchOptions
from frazil.runner.report import RunFailedError
from frazil.runner.run import run
from frazil.sources.kinds import source_of
from frazil.spec.sql.select import selected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

    from pyspark.sql import SparkSession

    from frazil.runner.report import RunReport
    from frazil.spec import Pipeline

_SLOWER = 1.5
_MOST_RETRY_SECONDS = 30.0
_USUAL = WatchOptions()


def watch(
    pipeline: Pipeline,
    spark: SparkSession,
    stop: Event,
    *,
    select: Sequence[str] = (),
    options: WatchOptions = _USUAL,
) -> int:
    """Run whenever files arrive, until ``stop`` is set; the current run is always finished.

    The folders are listed every ``every_seconds`` of the options; without new files the pause grows to
    ``idle_seconds``. Only a changed listing starts a run, so an idle watch costs no Spark jobs. Between runs the
    pipeline is unlocked for ``frazil maintain`` or another run.

    A failed table does not end the watch. It is retried when the listing changes. Retryable errors and unfinished files
    are also retried after a pause that grows from ``retry_seconds`` to 30 seconds. While another process holds the
    pipeline, the watch checks the lock every ``every_seconds``.

    Args:
        pipeline: the declaration.
        spark: a warm session.
        stop: set it to end, for example on SIGTERM.
        select: names or patterns, as for a run.
        options: pauses and callbacks.

    Returns:
        Exit code of the worst current failure at the end; 0 without a failure.

    Raises:
        FrazilError: a run cannot begin, and retrying would not help; published commits remain.
    """
    troubles, again = _Troubles(options.tell), _Again(options.retry_seconds)
    to_run = RunOptions(listener=options.listener)
    seen: object = None
    pause = options.every_seconds
    while not stop.is_set():
        listing = _listing(pipeline, select)
        if listing == seen and not again.is_due():
            pause = min(pause * _SLOWER, options.idle_seconds)
            options.turned(None)
            stop.wait(pause)
            continue
        again.arrived(is_new=listing != seen)
        seen = listing
        report = _report(lambda: run(pipeline, spark=spark, select=select, options=to_run))
        options.turned(report)
        if isinstance(report, FrazilError):
            troubles.wait_for(report)
            if isinstance(report, BusyError):
                # The holder may release the lock only briefly, as maintenance does between two tables.
                again.soon(options.every_seconds)
                stop.wait(options.every_seconds)
            else:
                again.later()
            continue
        is_new = troubles.now(report)
        outcomes = {*(table.outcome for table in report.tables), *(made.outcome for made in report.gold)}
        if is_new or "done" in outcomes:
            newest = max((modified for _, _, _, modified in listing), default=0)
            # Without a file, as in a folder that is gone, there is nothing to be behind.
            options.ran(report, max(0.0, time.time() - newest / 1e9) if newest else 0.0)
            pause = options.every_seconds
        # Files that look incomplete wait for a later run, so the same listing needs another run.
        if any(failure.retryable for failure in report.errors) or any(table.deferred for table in report.tables):
            again.later()
        stop.wait(pause)
    return troubles.exit_code


def _report(work: Callable[[], RunReport]) -> RunReport | FrazilError:
    """Return the report of a run, also of one that failed; or the error for which it cannot begin yet."""
    try:
        return work()
    except RunFailedError as error:
        return error.report
    except FrazilError as error:
        if not error.retryable:
            raise
        return error


class _Again:
    """Time of the next retry without new files."""

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
    """Current failures; each change is reported once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._failures: dict[str, tuple[str, int]] = {}
        self._waits_for: FrazilError | None = None

    @property
    def exit_code(self) -> int:
        waits = [] if self._waits_for is None else [self._waits_for.exit_code]
        return worst_exit([*(code for _, code in self._failures.values()), *waits])

    def now(self, report: RunReport) -> bool:
        """Record the failures of a run; return whether one of them is new."""
        now = {failure.name: (f"{failure}", failure.exit_code) for failure in report.errors}
        new = [text for name, (text, _) in now.items() if self._failures.get(name, ("", 0))[0] != text]
        if self._waits_for is not None:
            self._waits_for = None
            self._tell("the wait is over, continuing")
        for text in new:
            self._tell(text)
        for name in self._failures.keys() - now.keys():
            self._tell(f"{name}: recovered")
        self._failures = now
        return bool(new)

    def wait_for(self, error: FrazilError) -> None:
        """Record why a run cannot begin yet."""
        if self._waits_for is None or self._waits_for.message != error.message:
            self._tell(f"waiting: [{error.code}] {error.message}")
        self._waits_for = error


def _listing(pipeline: Pipeline, select: Sequence[str]) -> frozenset[tuple[str, str, int, int]]:
    """Land changes from servers; return (table, address, size, time) per file, or (table, error) per failing source."""
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
