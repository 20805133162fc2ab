"""DataFrames that the marts of a table share."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from frazil.spark.gateway import hold, release

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pyspark.sql import DataFrame


class FrameCache:
    """DataFrames by name, each made once however many marts ask for it at the same time.

    The run of a table owns it, and releases it when the last of its marts is done.
    """

    def __init__(self) -> None:
        self._frames: dict[Hashable, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self._locks: dict[Hashable, Lock] = {}

    def share(self, name: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the rows of a name, made when they are first asked for."""
        with self._locks.setdefault(name, Lock()):
            if name not in self._frames:
                self._frames[name] = make()
            return self._frames[name]

    def keep(self, name: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the rows of a name, computed when they are first read and then kept on the executors."""

        def held() -> DataFrame:
            rows = hold(make(), eager=False)
            self._kept.append(rows)
            return rows

        return self.share(name, held)

    def release(self) -> None:
        """Free all rows at once: Java's garbage collector may do it only hours later."""
        for rows in self._kept:
            release(rows)
        self._kept.clear()
        self._frames.clear()
