"""Ask for rows by one SELECT: a whole query is read once, where every operator of a DataFrame would be read alone."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_VIEWS: Final = Lock()
"""Held from the naming of the rows to the reading of the text: marts that share a session share its names too."""


def query(select: str, **rows: DataFrame) -> DataFrame:
    """Run a SELECT over rows.

    Args:
        select: Spark SQL; names in it come from :func:`frazil.spec.sql.names.quote`, or are ours.
        rows: what stands behind the names in ``FROM``. They become views of their session, and one of a name that
            was used before takes its place; a frame that was made before is not touched by that.

    Returns:
        The rows, not yet computed.
    """
    with _VIEWS:
        for name, frame in rows.items():
            frame.createOrReplaceTempView(name)
        found = next(iter(rows.values())).sparkSession.sql(select)
    # A write analyzes the text again; an alias keeps what the names stand for now.
    return found.alias("frazil_rows")
