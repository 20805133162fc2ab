"""Compute rows of a mart from all changes: for a first load, a rebuild, or keys to recompute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.marts.bitemporal import known_open_versions, known_versions
from frazil.marts.fold import alone, fill, hard_rows, newest, soft_rows
from frazil.marts.history import BASE, open_versions, versions
from frazil.marts.late import incomplete_sql
from frazil.marts.layout import columns_of
from frazil.marts.query import query_frames
from frazil.spec import Current, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.layout import FoldSpec


def all_rows(mart: Current | History, changes: DataFrame, spec: FoldSpec, times: DataFrame | None = None) -> DataFrame:
    """Compute the rows of a mart for some keys.

    Args:
        mart: the mart.
        changes: *all* changes of these keys in the shape of silver, with event time.
        spec: the table's parts.
        times: from :func:`frazil.marts.bitemporal.known_times`, for a bitemporal history.

    Returns:
        The mart's rows for these keys, in the shape of :func:`frazil.marts.layout.mart_columns`.
    """
    if times is not None and isinstance(mart, History):
        return known_versions(changes, times, spec, mart.deletes)
    whole = fill(changes, spec) if spec.fills else changes
    if isinstance(mart, History):
        return versions(whole.selectExpr("*", f"false AS {BASE}"), spec, mart.deletes)
    return _states(mart, newest(whole, spec), spec)


def single_change_rows(
    mart: Current | History, changes: DataFrame, spec: FoldSpec, times: DataFrame | None = None
) -> DataFrame:
    """Compute the rows of a mart for keys with a single change, which :func:`multi_change_keys` leaves out.

    Args:
        mart: the mart.
        changes: the single change of each key, in the shape of silver, with event time.
        spec: the table's parts.
        times: as for :func:`all_rows`.



    Cost: narrow, no shuffle; rows keep the order of the changes' files.
    """
    if times is not None:
        return known_open_versions(changes, times, spec)
    return open_versions(changes, spec) if isinstance(mart, History) else _states(mart, alone(changes, spec), spec)


def multi_change_keys(changes: DataFrame, spec: FoldSpec) -> DataFrame:
    """Return the keys with more than one change, or with a change that does not carry every column."""
    return query_frames(
        f"""
        SELECT {columns_of(spec.keys)} FROM frazil_changes
        GROUP BY {columns_of(spec.keys)}
        HAVING count(*) > 1{f" OR bool_or{incomplete_sql(spec)}" if spec.fills else ""}""",
        frazil_changes=changes,
    )


def _states(mart: Current, folded: DataFrame, spec: FoldSpec) -> DataFrame:
    return (soft_rows if mart.deletes == "soft" else hard_rows)(folded, spec)
