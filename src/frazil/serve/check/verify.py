"""Comparisons with the source as a step of the pipeline: which tables are due, and a bounded number of them.

A comparison reads the compared columns of a table once on both sides. A part of the keys would not cost less: buckets
of hashes need a look at every key. So the work of one run is bounded by time, and tables take turns.
"""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Final

from frazil.errors import FrazilError
from frazil.runner.report import VerifyReport
from frazil.serve.check.check import Silent
from frazil.serve.check.compare import can_compare, compare
from frazil.serve.checks import LastChecks, keep_looks, keep_try, last_checks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from frazil.runner.options import Listener
    from frazil.spec import Pipeline, Table

_TRIES: Final = 4
"""A table that is not found equal is compared again after this part of ``every``."""
_SECONDS: Final = 60.0
"""After so long no other comparison begins."""
_NEVER: Final = dt.datetime.min.replace(tzinfo=dt.UTC)


def due(
    pipeline: Pipeline, names: Collection[str], checks: Mapping[str, LastChecks], now: dt.datetime
) -> Sequence[Table]:
    """Return the tables to compare now, the one whose last comparison is longest ago first.

    Args:
        pipeline: the declaration.
        names: source tables to choose from.
        checks: what is known of them.
        now: the time.
    """
    if pipeline.verify is None:
        return ()
    every, found = pipeline.verify.span, []
    for table in pipeline.tables:
        if table.name in names and can_compare(table):
            known = checks.get(table.name, LastChecks()).verified
            tried_at, at = (known.tried_at, known.at or _NEVER) if known else (_NEVER, _NEVER)
            if now - at >= every and now - tried_at >= every / _TRIES:
                found.append((tried_at, table))
    return [table for _, table in sorted(found, key=lambda one: one[0])]


def verify(
    pipeline: Pipeline,
    names: Collection[str],
    listener: Listener | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> list[VerifyReport]:
    """Compare the tables that are due with their sources; keep the results; never raise.

    Args:
        pipeline: the declaration.
        names: source tables to choose from.
        listener: receives progress.
        clock: time in seconds. After a minute no other comparison begins.

    Returns:
        A report for each comparison.

    Cost: reads one small file if no table is due; else for each table as :func:`frazil.serve.check.compare.compare`.
    """
    until, reports = clock() + _SECONDS, list[VerifyReport]()
    for table in due(pipeline, names, last_checks(pipeline), dt.datetime.now(dt.UTC)):
        if reports and clock() >= until:
            break
        reports.append(_verified(pipeline, table.name, listener))
    return reports


def _verified(pipeline: Pipeline, name: str, listener: Listener | None) -> VerifyReport:
    began_at, since = dt.datetime.now(dt.UTC), time.monotonic()
    made = VerifyReport(table=name)
    try:
        looks = compare(pipeline, _Progress(listener), select=[name])
        keep_looks(pipeline, looks)
        finding = looks[0].finding
        made.ok, made.detail, made.hint = finding.ok, finding.detail, finding.hint
    except Exception as error:  # noqa: BLE001 - the load is done, and nothing of it is wrong
        keep_try(pipeline, name, began_at)
        made.code = error.code if isinstance(error, FrazilError) else FrazilError.code
        made.detail, made.hint = _first_line(error), getattr(error, "hint", None)
    made.seconds = time.monotonic() - since
    return made


def _first_line(error: Exception) -> str:
    if isinstance(error, FrazilError):
        return error.message
    return next(iter(f"{error}".splitlines()), type(error).__name__)


class _Progress(Silent):
    """Tells a run's listener of comparisons, as work of one name."""

    def __init__(self, listener: Listener | None) -> None:
        self._listener = listener

    def began(self, table: str, what: str) -> None:
        del table
        if self._listener is not None:
            self._listener.began("verify", what)

    def progressed(self, table: str, how_far: str) -> None:
        del table
        if self._listener is not None:
            self._listener.progressed("verify", how_far)
