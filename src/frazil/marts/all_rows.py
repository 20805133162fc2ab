"""All rows of a mart, from all changes: a first load, a rebuild, and keys that are folded anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.marts.current import hard, soft
from frazil.marts.fold import alone, fill, newest
from frazil.marts.history import BASE, opened, versions
from frazil.marts.late import is_incomplete
from frazil.marts.query import query
from frazil.marts.shape import columns_of
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
    if isinstance(mart, History):
        return versions(whole.selectExpr("*", f"false AS {BASE}"), shape, mart.deletes)
    return _states(mart, newest(whole, shape), shape)


def sole_rows(mart: Current | History, changes: DataFrame, shape: Shape) -> DataFrame:
    """As :func:`all_rows`, of keys that :func:`crowded` does not name: each change stands for itself.

    Cost: narrow, no shuffle; rows keep the order of the changes' files.
    """
    return opened(changes, shape) if isinstance(mart, History) else _states(mart, alone(changes, shape), shape)


def crowded(changes: DataFrame, shape: Shape) -> DataFrame:
    """Name the keys of which there is more than one change, or one that does not carry every column."""
    return query(
        f"""
        SELECT {columns_of(shape.keys)} FROM frazil_changes
        GROUP BY {columns_of(shape.keys)}
        HAVING count(*) > 1{f" OR bool_or{is_incomplete(shape)}" if shape.fills else ""}""",
        frazil_changes=changes,
    )


def _states(mart: Current, folded: DataFrame, shape: Shape) -> DataFrame:
    return (soft if mart.deletes == "soft" else hard)(folded, shape)
