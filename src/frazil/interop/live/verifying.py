"""Comparisons with sources beside a watch: in a thread of their own, so that no load waits for them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from frazil.errors import FrazilError
from frazil.interop.notify.notify import tell_verified

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from frazil.runner.options import WatchOptions
    from frazil.runner.report import RunReport
    from frazil.spec import Pipeline

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
    from frazil.serve.check.verify import verify  # noqa: PLC0415 - DuckDB takes time to import

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
