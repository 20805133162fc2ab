"""Compare this machine's clock with a table's newest commit: Iceberg's times never run backwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from frazil.errors import StorageError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from datetime import date

    from frazil.iceberg.snapshot import TableSnapshot

_TOLERATED: Final = timedelta(seconds=60)
"""Iceberg accepts a commit that is at most this much older than the one before."""


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
            "clock has passed the commit's time, the table can be read but not written",
        )


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
