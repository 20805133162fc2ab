"""All rows of a mart, from all changes: a first load, a rebuild, and keys that are folded anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from frazil.marts.current import hard, soft
from frazil.marts.fold import fill, newest
from frazil.marts.history import BASE, versions
from frazil.spec import Current, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.shape import Shape


def all_rows(mart: Current | History, changes: DataFrame, shape: Shape) -> DataFrame:
    """Make the rows of a mart for some keys.

    Args:
        mart: which mart.
        changes: *all* changes of these keys in the shape of silver, with event time.
        shape: the table's parts.

    Returns:
        The mart's rows for these keys, in the shape of :func:`frazil.marts.layout.mart_columns`.
    """
    whole = fill(changes, shape) if shape.fills else changes
    match mart:
        case History():
            return versions(whole.withColumn(BASE, F.lit(False)), shape, mart.deletes)
        case Current(deletes="soft"):
            return soft(newest(whole, shape), shape)
        case Current():
            return hard(newest(whole, shape), shape)
