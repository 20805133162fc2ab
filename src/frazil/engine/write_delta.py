"""Get a batch into a mart that has rows, in one of the ways of :mod:`frazil.plan.apply_strategy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.engine.driver_apply import fetch
from frazil.failpoints import failpoint
from frazil.marts.fold_spec import columns_of, same
from frazil.marts.query import query
from frazil.spec import History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.engine.batch_delta import Increment, Seen
    from frazil.lake.commit import TableTransaction
    from frazil.plan.apply_strategy import Strategy


def apply(mine: Increment, batch: TableTransaction, chosen: Strategy) -> tuple[Strategy, Seen]:
    """Write an increment to the branch of a mart; give the way that was taken, and what the increment does.

    A *small* one with keys that have to be folded anew is *split*: a key may have any number of rows. Nothing is
    rewritten where nothing is replaced.
    """
    if chosen == "row_delta":
        fetched = fetch(mine)
        if fetched is not None:
            failpoint("mart.before_rows")
            _note(batch, chosen, fetched.seen)
            batch.row_delta(fetched.rows, fetched.places)
            return chosen, fetched.seen
        chosen = "delete_append"
    mine = mine.once()
    seen = mine.seen()
    rows = mine.rows(seen)
    if chosen == "overwrite" and seen.replaced:
        failpoint("mart.before_rows")
        _note(batch, chosen, seen)
        batch.replace(_without_replaced(mine, rows.columns).unionByName(rows))
        return chosen, seen
    if seen.replaced:
        # Another mart of the same session may be at the same place.
        view = f"frazil_keys_{mine.step.mart}"
        mine.keys().createOrReplaceTempView(quote(view))
        batch.delete(_condition(mine, seen, view))
    failpoint("mart.before_rows")
    _note(batch, "delete_append", seen)
    batch.append(rows)
    return "delete_append", seen


def _note(batch: TableTransaction, way: Strategy, seen: Seen) -> None:
    batch.note(strategy=way, inserted=seen.inserted, updated=seen.updated, deleted=seen.deleted, late=seen.late)


def _without_replaced(mine: Increment, names: Sequence[str]) -> DataFrame:
    """Rows of the mart that the batch does not replace."""
    return query(
        f"""
        SELECT /*+ BROADCAST(k) */ {columns_of(names, "t")} FROM frazil_target AS t
        LEFT ANTI JOIN frazil_keys AS k ON {same(mine.spec.keys, "t", "k")} AND {mine.replaced()}""",
        frazil_target=mine.target,
        frazil_keys=mine.keys(),
    )


def _condition(mine: Increment, seen: Seen, view: str) -> str:
    """SQL that tells of a row ``t`` of the mart whether the batch replaces it, its keys in a view."""
    among = (
        f"EXISTS (SELECT /*+ BROADCAST(k) */ 1 FROM {quote(view)} AS k "
        f"WHERE {same(mine.spec.keys, 't', 'k')} AND {mine.replaced()})"
    )
    # The open versions are a partition of their own, and only that is read.
    return f"t.is_current AND {among}" if isinstance(mine.mart, History) and not seen.recompute else among
