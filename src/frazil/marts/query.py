"""Run one SELECT over DataFrames: Spark analyzes a query once, but each DataFrame operator separately."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_VIEWS: Final = Lock()
"""Held while views are created and the query is analyzed: marts of one session share its views."""


def query_frames(select: str, **rows: DataFrame) -> DataFrame:
    """Run a SELECT over rows.

    Args:
        select: Spark SQL; users' names in it are quoted by :func:`frazil.spec.sql.names.quote`.
        rows: name in ``FROM`` -> rows. They become views of their session and replace views of the same name; earlier
            DataFrames are not affected.

    Returns:
        The rows, lazily.
    """
    with _VIEWS:
        for name, frame in rows.items():
            frame.createOrReplaceTempView(name)
        found = next(iter(rows.values())).sparkSession.sql(select)
    # A write analyzes the text again; an alias keeps the present views.
    return found.alias("frazil_rows")
