"""Show a run while it goes: a moving line a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table as Grid
from rich.text import Text

from frazil.cli.console import err

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from frazil.engine.report import TableReport
    from frazil.steps import Step


class Progress:
    """A listener that people can watch. Use as a context manager around the run."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = Live(console=err, transient=True, refresh_per_second=8) if err.is_terminal and not quiet else None
        self._lock = threading.Lock()
        self._now: dict[str, tuple[str, float]] = {"": ("start Spark", time.monotonic())}

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
            self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def planned(self, steps: Sequence[Step]) -> None:
        """Forget the start; tell how much there is to do."""
        with self._lock:
            self._now.pop("", None)
        if not self._live and not self._quiet:
            err.print(f"{len(steps)} steps to do" if steps else "nothing to do")
        self._draw()

    def began(self, table: str, what: str) -> None:
        """Show what a table is at."""
        with self._lock:
            self._now[table] = (what, time.monotonic())
        if not self._live and not self._quiet:
            err.print(f"{table}: {what}", markup=False)
        self._draw()

    def ended(self, report: TableReport) -> None:
        """Drop a table that is done."""
        with self._lock:
            self._now.pop(report.table, None)
        self._draw()

    def _draw(self) -> None:
        if not self._live:
            return
        grid = Grid.grid(padding=(0, 1))
        with self._lock:
            for table, (what, since) in self._now.items():
                seconds = f"{time.monotonic() - since:.0f} s"
                grid.add_row(Spinner("dots"), Text(table, style="bold"), Text(what), Text(seconds, style="dim"))
        self._live.update(grid)
