"""Compare this machine's clock with a table's newest commit: Iceberg's times never run backwards."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import StorageError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from frazil.iceberg.snapshot import TableSnapshot

_TOLERATED: Final = timedelta(seconds=60)
"""Iceberg accepts a commit that is at most this much older than the one before."""
_TIME: Final = "timestamp-ms"


class ClockError(StorageError):
    """The newest commit of a table is later than this machine's clock."""

    code = "FZ311"
    retryable = True


def verify_clock(path: tuple[str, ...], base: TableSnapshot) -> None:
    """Refuse to write to a table if its newest commit is later than this machine's clock.

    Raises:
        ClockError: the commit is later by more than the minute that Iceberg allows.
    """
    if base.committed_at is None:
        return
    now = time_here()
    if base.committed_at - now > _TOLERATED:
        ahead = counted(round((base.committed_at - now).total_seconds()), "second")
        raise ClockError(
            f"{'.'.join(path[1:])}: its newest commit is of {base.committed_at:%Y-%m-%d %H:%M:%S}, {ahead} later than "
            f"it is by the clock of this machine, {now:%Y-%m-%d %H:%M:%S} (UTC); nothing was written",
            hint="correct the wrong clock, here or on the machine that made the commit, and run again. Until this "
            "clock has passed the commit's time, the table can be read but not written. If that clock was wrong, "
            "frazil doctor --repair corrects the times of a lake on this machine's disk",
        )


def time_ahead(metadata: Mapping[str, Any]) -> timedelta:
    """Return how far the newest commit of a table lies in the future of this machine's clock; 0 for not at all.

    Args:
        metadata: the table's, as Iceberg's table format has it.
    """
    newest = max((metadata.get("last-updated-ms", 0), *(one[_TIME] for one in _timed(metadata))))
    ahead = timedelta(milliseconds=newest - _milliseconds(time_here()))
    return ahead if ahead > _TOLERATED else timedelta()


def at_present(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a table with the present time in place of all that lie in the future.

    The order of commits stays, and so does all else: times of commits are nowhere but there.
    """
    now = _milliseconds(time_here())
    made: dict[str, Any] = copy.deepcopy(dict(metadata))
    for one in _timed(made):
        one[_TIME] = min(one[_TIME], now)
    made["last-updated-ms"] = min(made["last-updated-ms"], now)
    return made


def _timed(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a table's metadata that have a time."""
    return [one for name in ("snapshots", "snapshot-log", "metadata-log") for one in metadata.get(name, ())]


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def today() -> date:
    """Return the current day in UTC, from which horizons are counted."""
    return time_here().date()


def day_of_horizon(day: date, base: TableSnapshot) -> date:
    """Return the day from which horizons are counted: ``day``, or the day of the newest commit if that is earlier.

    A clock that is ahead therefore folds nothing too early. A table without recent commits is folded one run later.
    """
    return day if base.committed_at is None else min(day, base.committed_at.date())


def time_here() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)
