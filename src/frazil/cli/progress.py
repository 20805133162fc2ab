"""Progress of runs and checks: a moving line for each table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table as Grid
from rich.text import Text

from frazil.cli.console import err, out
from frazil.cli.interrupt import closing
from frazil.runner.report import GoldReport, TableReport
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from frazil.serve.check.finding import Finding
    from frazil.steps import Step

_LINES_APART_SECONDS = 10


class _OnTerminal:
    """Shows progress on a terminal while a block runs, and restores the terminal however it ends."""

    def __init__(self, live: Live | None) -> None:
        self._live, self._closing = live, ExitStack()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
            self._closing.enter_context(closing(self._live.stop))
            self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        self._closing.close()

    def _draw(self) -> None:
        """Draw the first state."""


class Progress(_OnTerminal):
    """A listener that shows a run to people. Use it as a context manager around the run."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        first: str | None = "plan and start Spark if there is work",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet, self._clock, self._first = quiet or out.quiet, clock, first
        self._spinner = Spinner("dots")
        self._lock = threading.Lock()
        self._now: dict[str, tuple[str, str, float]] = {"": (first, "", self._clock())} if first else {}
        self._said: dict[str, float] = {}
        live = None
        if err.is_terminal and not self._quiet:
            # Drawn at each refresh, so that the seconds go on between two events.
            live = Live(console=err, transient=True, refresh_per_second=8, get_renderable=self._grid)
        super().__init__(live)

    def __enter__(self) -> Self:
        if self._first and not self._live and not self._quiet:
            err.print(self._first, markup=False)
        return super().__enter__()

    def step(self, text: str) -> None:
        """Show the current step of a command that does one after the other."""
        with self._lock:
            self._now = {"": (text, "", self._clock())}
        if not self._live and not self._quiet:
            err.print(text, markup=False)
        self._draw()

    def planned(self, steps: Sequence[Step]) -> None:
        """Remove the line of the start; show the number of steps. Of none, the report says why."""
        with self._lock:
            self._now.pop("", None)
        if steps and not self._live and not self._quiet:
            err.print(f"{counted(len(steps), 'step')} to do")
        self._draw()

    def began(self, table: str, what: str) -> None:
        """Show the current step of a table."""
        with self._lock:
            self._now[table] = (what, "", self._clock())
            self._said[table] = self._clock()
        if not self._live and not self._quiet:
            err.print(f"{table}: {what}", markup=False)
        self._draw()

    def progressed(self, table: str, how_far: str) -> None:
        """Show the progress of a table's step; plain lines are at least ten seconds apart."""
        now = self._clock()
        with self._lock:
            what, _, since = self._now.get(table, ("", "", now))
            self._now[table] = (what, how_far, since)
            is_due = now - self._said.get(table, now) >= _LINES_APART_SECONDS
            if is_due:
                self._said[table] = now
        if is_due and not self._live and not self._quiet:
            err.print(f"{table}: {what}: {how_far}, {now - since:.0f} s", markup=False)
        self._draw()

    def ended(self, report: TableReport | GoldReport) -> None:
        """Remove the line of a finished table or aggregate."""
        with self._lock:
            self._now.pop(report.table if isinstance(report, TableReport) else f"gold.{report.name}", None)
        self._draw()

    def _draw(self) -> None:
        if self._live:
            self._live.refresh()

    def _grid(self) -> Grid:
        grid = Grid.grid(padding=(0, 1))
        with self._lock:
            now = [*self._now.items()]
        for table, (what, how_far, since) in now:
            seconds = f"{self._clock() - since:.0f} s"
            texts = Text(what), Text(how_far), Text(seconds, style="dim")
            grid.add_row(self._spinner, Text(table, style="bold"), *texts)
        return grid


_SECONDS_BETWEEN_LINES = 10


class CheckProgress(_OnTerminal):
    """A listener that shows a check to people: a moving line on a terminal, plain lines now and then elsewhere."""

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._clock = quiet or out.quiet, clock
        self._spinner = Spinner("dots")
        self._table, self._what, self._how_far = "", "look for the tables", ""
        self._began = self._said = self._clock()
        self._proven = self._failed = 0
        live = None
        if err.is_terminal and not self._quiet:
            live = Live(console=err, transient=True, refresh_per_second=8, get_renderable=self._line)
        super().__init__(live)

    def began(self, table: str, what: str) -> None:
        """Show the current proof."""
        self._table, self._what, self._how_far = table, what, ""
        self._began = self._clock()
        self._say()

    def progressed(self, table: str, how_far: str) -> None:
        """Show the progress of the proof."""
        self._table, self._how_far = table, how_far
        self._say()

    def found(self, finding: Finding) -> None:
        """Count the finding."""
        self._proven += finding.ok is True
        self._failed += finding.ok is False

    def _say(self) -> None:
        now = self._clock()
        if self._live or self._quiet or now - self._said < _SECONDS_BETWEEN_LINES:
            return
        self._said = now
        err.print(" ".join(filter(None, (f"{self._table}:", self._what, self._how_far))), markup=False)

    def _line(self) -> Grid:
        grid = Grid.grid(padding=(0, 1))
        failed = Text(f"{self._failed} wrong" if self._failed else "", style="red")
        seconds = f"{self._clock() - self._began:.0f} s"
        proven = Text(f"{self._proven} ok", style="dim")
        texts = (Text(self._what), Text(self._how_far), Text(seconds, style="dim"), proven, failed)
        grid.add_row(self._spinner, Text(self._table, style="bold"), *texts)
        return grid
