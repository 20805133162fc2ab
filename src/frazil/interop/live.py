"""The state of ``frazil watch`` and ``frazil capture`` for other threads, and comparisons with sources beside them."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final

from frazil.errors import FrazilError
from frazil.interop.notify.notify import tell_verified

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from frazil.runner.options import CaptureOptions, Listener, WatchOptions
    from frazil.runner.report import GoldReport, RunReport, TableReport
    from frazil.serve.checks import LastChecks
    from frazil.serve.lag import CaptureLag
    from frazil.sources.capture import Landed
    from frazil.spec import Pipeline
    from frazil.steps import Step


@dataclass(slots=True)
class LandedSoFar:
    """Totals of one capture since the process began; times in seconds since 1970."""

    files: int = 0
    records: int = 0
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The newest run, its end, and its lag; None if the run had no new files."""

    report: RunReport
    at: float
    lag_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A consistent copy of the numbers.

    Attributes:
        rounds: turns of the loop.
        round_at, good_at: when the newest turn ended, and the newest without a failure; None before.
        failing: codes of the failures that stand, sorted.
        errors: code -> failures, each counted in every turn that has it.
        landed: capture -> what it landed.
        lags: how far captures are behind.
        run: the newest run; None before.
        checks: the last checks of tables.
    """

    rounds: int
    round_at: float | None
    good_at: float | None
    failing: tuple[str, ...]
    errors: Mapping[str, int]
    landed: Mapping[str, LandedSoFar]
    lags: tuple[CaptureLag, ...]
    run: LastRun | None
    checks: Mapping[str, LastChecks]


class LoopProgress:
    """Collects the numbers from the callbacks of a watch or a capture."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self._lock = Lock()
        self._beat = time.monotonic()
        self._rounds, self._errors = 0, Counter[str]()
        self._round_at: float | None = None
        self._good_at: float | None = None
        self._failing: dict[str, tuple[str, ...]] = {}
        self._landed: dict[str, LandedSoFar] = {}
        self._lags: tuple[CaptureLag, ...] = ()
        self._run: LastRun | None = None
        self._checks: Mapping[str, LastChecks] = {}

    @property
    def silent_seconds(self) -> float:
        """Return how long ago the loop last showed that it works: a turn, or progress within one."""
        return time.monotonic() - self._beat

    @property
    def seen(self) -> Seen:
        """Return the numbers as they are now."""
        with self._lock:
            failing = {code for codes in self._failing.values() for code in codes}
            return Seen(
                rounds=self._rounds,
                round_at=self._round_at,
                good_at=self._good_at,
                failing=tuple(sorted(failing)),
                errors=dict(self._errors),
                landed={name: replace(one) for name, one in self._landed.items()},
                lags=self._lags,
                run=self._run,
                checks=self._checks,
            )

    def beat(self) -> None:
        """Note that the loop works."""
        self._beat = time.monotonic()

    def measured(self, lags: tuple[CaptureLag, ...]) -> None:
        """Take how far captures are behind."""
        self._lags = lags

    def checked(self, checks: Mapping[str, LastChecks]) -> None:
        """Take the last checks of tables."""
        self._checks = checks

    def of_watch(self, options: WatchOptions) -> WatchOptions:
        """Return options with which a watch fills the numbers."""

        def turned(found: RunReport | FrazilError | None) -> None:
            if isinstance(found, FrazilError):
                self._turned("", [found.code])
            elif found is None:
                self._turned("", None)
            else:
                with self._lock:
                    self._run = LastRun(report=found, at=time.time())
                self._turned("", [failure.code for failure in found.errors])
            options.turned(found)

        def ran(report: RunReport, lag_seconds: float) -> None:
            with self._lock:
                self._run = LastRun(report=report, at=time.time(), lag_seconds=lag_seconds)
            options.ran(report, lag_seconds)

        return replace(options, turned=turned, ran=ran, listener=_Beats(self, options.listener))

    def of_capture(self, options: CaptureOptions) -> CaptureOptions:
        """Return options with which a capture fills the numbers."""

        def turned(name: str, landed: Landed, errors: Sequence[FrazilError]) -> None:
            with self._lock:
                mine = self._landed.setdefault(name, LandedSoFar())
                mine.files += landed.files
                mine.records += landed.records
                mine.at = time.time() if landed.files else mine.at
            self._turned(name, [error.code for error in errors])
            options.turned(name, landed, errors)

        def progressed(name: str, text: str) -> None:
            self.beat()
            options.progressed(name, text)

        return replace(options, turned=turned, progressed=progressed)

    def _turned(self, name: str, codes: Iterable[str] | None) -> None:
        """Count a turn; without codes nothing was tried, and failures stand as they did."""
        self.beat()
        with self._lock:
            self._rounds += 1
            self._round_at = time.time()
            if codes is not None:
                found = tuple(codes)
                self._errors.update(found)
                self._failing[name] = found
            if not any(self._failing.values()):
                self._good_at = self._round_at


class _Beats:
    """A listener that notes that a run works, and calls another one."""

    def __init__(self, progress: LoopProgress, listener: Listener | None) -> None:
        self._progress, self._listener = progress, listener

    def planned(self, steps: Sequence[Step]) -> None:
        self._progress.beat()
        if self._listener:
            self._listener.planned(steps)

    def began(self, table: str, what: str) -> None:
        self._progress.beat()
        if self._listener:
            self._listener.began(table, what)

    def progressed(self, table: str, how_far: str) -> None:
        self._progress.beat()
        if self._listener:
            self._listener.progressed(table, how_far)

    def ended(self, report: TableReport | GoldReport) -> None:
        self._progress.beat()
        if self._listener:
            self._listener.ended(report)


_PAUSE_SECONDS: Final = 10.0
"""So often it is asked at most which tables are due."""
_END_SECONDS: Final = 5.0
"""The end of a watch waits so long for a comparison, which ends with the process otherwise."""


@contextmanager
def verifying(pipeline: Pipeline, names: Collection[str], options: WatchOptions) -> Iterator[WatchOptions]:
    """Give options with which a watch of some tables compares those that are due with their sources."""
    if pipeline.verify is None:
        yield options
        return
    failed: set[str] = set()
    turned_once, stop = Event(), Event()

    def turned(found: RunReport | FrazilError | None) -> None:
        options.turned(found)
        if not isinstance(found, FrazilError):
            if found is not None:
                failed.clear()
                failed.update(table.table for table in found.tables if table.outcome in ("failed", "not started"))
            turned_once.set()

    def work() -> None:
        turned_once.wait()
        said: dict[str, str] = {}
        while not stop.is_set():
            _compare(pipeline, {*names} - failed, said, options.tell)
            stop.wait(_PAUSE_SECONDS)

    thread = Thread(target=work, daemon=True, name="verify")
    thread.start()
    try:
        yield replace(options, turned=turned)
    finally:
        stop.set()
        turned_once.set()
        thread.join(_END_SECONDS)


def _compare(pipeline: Pipeline, names: Collection[str], said: dict[str, str], tell: Callable[[str], None]) -> None:
    """Compare the tables that are due, and tell what is not equal, once for each cause."""
    from frazil.serve.check.compare import verify  # noqa: PLC0415 - DuckDB takes time to import

    found = verify(pipeline, names)
    for one in found:
        cause = "" if one.ok else f"{one.ok} {one.code}"
        if cause and said.get(one.table) != cause:
            tell(f"{one}")
        said[one.table] = cause
    for text in tell_verified(pipeline, found):
        if said.get("") != text:
            tell(text)
        said[""] = text
