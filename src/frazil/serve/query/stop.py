"""Stopping a query from another thread, or after a time."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb


@dataclass(slots=True)
class Stop:
    """Stops a query.

    Attributes:
        seconds: a query that takes longer is stopped; None for no limit.
        is_cancelled: whether :meth:`cancel` was called.
    """

    seconds: float | None = None
    is_cancelled: bool = False
    _connections: list[duckdb.DuckDBPyConnection] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def cancel(self) -> None:
        """Stop the query, or refuse it if it has not begun. May be called from any thread."""
        with self._lock:
            self.is_cancelled = True
            self._interrupt()

    @contextmanager
    def watching(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Within a block, let the query of a connection be stopped."""
        with self._lock:
            self._connections.append(connection)
        timer = None if self.seconds is None else Timer(self.seconds, self._time_out)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                self._connections.remove(connection)

    def _time_out(self) -> None:
        with self._lock:
            self._interrupt()

    def _interrupt(self) -> None:
        for connection in self._connections:
            connection.interrupt()

    @property
    def reason(self) -> str:
        """Why an interrupted query ended."""
        return "the query was cancelled" if self.is_cancelled else f"the query took longer than {self.seconds:g} s"
