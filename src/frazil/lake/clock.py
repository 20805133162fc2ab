"""The present day."""

from __future__ import annotations

import datetime as dt


def today() -> dt.date:
    """Return the present day in UTC, which horizons are counted from."""
    return dt.datetime.now(dt.UTC).date()
