"""Get a batch into a mart that has rows, in one of the ways of :mod:`frazil.plan.way`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.failpoints import failpoint
from frazil.marts.query import query
from frazil.marts.shape import columns_of, same
from frazil.spec import History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.engine.increment import Increment
    from frazil.lake.commit import Batch
    from frazil.plan.way import Way


def apply(mine: Increment, batch: Batch, chosen: Way) -> Way:
    """Write an increment to the branch of a mart; give the way that was taken.

    Nothing is rewritten where nothing is replaced.
    """
    rows = mine.rows()
    if chosen == "rewrite" and mine.replaces:
        failpoint("mart.after_delete")
        batch.replace(_kept(mine, rows.columns).unionByName(rows))
        return chosen
    if chosen == "rewrite":
        chosen = "split"
    if mine.replaces:
        if chosen == "small":
            batch.delete_places(mine.places().toArrow())
            if mine.is_slow and isinstance(mine.mart, History):
                batch.delete_places(mine.closed_places().toArrow(), living=False)
        else:
            # Another mart of the same session may be at the same place.
            view = f"frazil_keys_{mine.name}"
            mine.keys().createOrReplaceTempView(quote(view))
            batch.delete(_condition(mine, view))
    failpoint("mart.after_delete")
    batch.append(rows)
    return chosen


def _kept(mine: Increment, names: Sequence[str]) -> DataFrame:
    """Rows of the mart that the batch does not replace."""
    return query(
        f"""
        SELECT /*+ BROADCAST(k) */ {columns_of(names, "t")} FROM frazil_target AS t
        LEFT ANTI JOIN frazil_keys AS k ON {same(mine.shape.keys, "t", "k")} AND {mine.replaced()}""",
        frazil_target=mine.target,
        frazil_keys=mine.keys(),
    )


def _condition(mine: Increment, view: str) -> str:
    """SQL that tells of a row ``t`` of the mart whether the batch replaces it, its keys in a view."""
    among = (
        f"EXISTS (SELECT /*+ BROADCAST(k) */ 1 FROM {quote(view)} AS k "
        f"WHERE {same(mine.shape.keys, 't', 'k')} AND {mine.replaced()})"
    )
    # The open versions are a partition of their own, and only that is read.
    return f"t.is_current AND {among}" if isinstance(mine.mart, History) and not mine.is_slow else among
