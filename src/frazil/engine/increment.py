"""What a batch means for a mart that has rows: which of them it replaces, and by what.

Keys with late or incomplete changes are folded anew from all their changes; all others from the batch and the rows
the mart has of them, which are looked for once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.engine.size import new_changes
from frazil.errors import FrazilError
from frazil.marts import late
from frazil.marts.all_rows import all_rows
from frazil.marts.current import hard, soft
from frazil.marts.fold import NEWEST, VALUES, fill, newest
from frazil.marts.history import BASE, versions
from frazil.marts.query import query
from frazil.marts.shape import EVENT_TIME, columns_of, same
from frazil.silver.batches import other_batches
from frazil.spec import Current, History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.engine.context import Context
    from frazil.engine.size import Size
    from frazil.marts.shape import Shape
    from frazil.steps import UpdateMart

FEW_CHANGES = 500_000
"""Batches of up to this many changes are folded in one task: what one task holds is not shuffled."""

FILE, POS = "_cdc_at_file", "_cdc_at_pos"
"""Where a row of the mart stands: its file, and its number in it."""

_SLOW, _STALE, _LATE = "_cdc_slow", "_cdc_stale", "_cdc_late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """What one mart has to take on.

    Attributes:
        name: name of the mart's table.
        mart, shape: the mart and the table's parts.
        changes: all changes of silver, with event time.
        target: rows of the mart as they are, with event time and place. Read at ``main``: the branch will have lost
            rows by the time the new ones are computed.
        new: the batch's changes.
        found: the mart's rows of the batch's keys, as :func:`frazil.marts.late.applied` gives them.
        folded: one row per key of the batch, with the verdicts on it.
        counts: how many keys of each verdict there are.
        is_few: so few changes that one task folds them.
    """

    name: str
    mart: Current | History
    shape: Shape
    changes: DataFrame
    target: DataFrame
    new: DataFrame
    found: DataFrame
    folded: DataFrame
    counts: dict[str, int]
    is_few: bool

    @property
    def replaces(self) -> bool:
        """Whether rows of the mart have to go."""
        return self.counts["replaced"] > 0

    @property
    def is_slow(self) -> bool:
        """Whether some keys are folded anew."""
        return self.counts["slow"] > 0

    def rows(self) -> DataFrame:
        """Rows that the batch brings, of all keys whose rows it replaces and of new ones."""
        return _new_versions(self) if isinstance(self.mart, History) else _new_states(self)

    def keys(self) -> DataFrame:
        """Keys of which rows are replaced: with ``_cdc_slow``, which tells that all rows of the key are."""
        return self.folded.where(f"{_SLOW} OR ({late.IN_TARGET} AND NOT {_STALE})").selectExpr(
            *map(quote, self.shape.keys), _SLOW
        )

    def replaced(self) -> str:
        """SQL condition, between a row ``t`` of the mart and a row ``k`` of :meth:`keys` with equal keys."""
        return f"(k.{_SLOW} OR t.is_current)" if isinstance(self.mart, History) else "true"

    def places(self) -> DataFrame:
        """Where the replaced rows stand, but for closed versions: ``file_path``, ``pos``."""
        return self.folded.where(f"{late.IN_TARGET} AND NOT {_STALE}").selectExpr(
            f"{FILE} AS file_path", f"{POS} AS pos"
        )

    def closed_places(self) -> DataFrame:
        """Where the closed versions of keys that are folded anew stand: ``file_path``, ``pos``."""
        closed = late.of_keys(self.target.where("NOT is_current"), self.folded.where(_SLOW), self.shape.keys)
        return closed.selectExpr(f"{FILE} AS file_path", f"{POS} AS pos")


def increment(
    context: Context,
    step: UpdateMart,
    *,
    mart: Current | History,
    shape: Shape,
    changes: DataFrame,
    target: DataFrame,
    size: Size,
) -> Increment:
    """Fold one batch of changes, and judge every key of it.

    Args:
        context: the table's part of the run.
        step: what to do.
        mart: the mart.
        shape: the table's parts.
        changes: all changes of silver, with event time.
        target: rows of the mart, with event time and place.
        size: how much the batch is.

    Cost: one scan of the mart for the batch's keys, one of newer tombstones, a fold of the batch.
    """
    new, is_few = new_changes(context, step, changes, shape), size.changes <= FEW_CHANGES
    if is_few:
        new = new.coalesce(1)
    touched = new.select(*map(quote, shape.keys))
    is_history = isinstance(mart, History)
    also = [FILE, POS]
    if is_history:  # the rows themselves are needed again
        also += [quote(name) for name in shape.columns if name not in shape.keys]
        also += ["valid_from", "is_deleted", r.POSITION, r.ROW]
    heads = target.where(f"is_current AND {size.near}" if is_history else size.near)
    found = late.applied(heads, touched, shape, *also)
    if is_history:
        found = context.keep((step.mart, "found", step.upto), lambda: found)
    every = is_history and not shape.times_follow_order
    deletes = other_batches(changes, step.after, step.upto).where(f"{r.CLASS} = '{r.DELETE}'")
    if shape.sequence_by and not every:
        # Only tombstones as new as the batch's oldest change matter; others are pruned by their files' statistics.
        deletes = deletes.where(f"{quote(shape.sequence_by[0])} >= {size.oldest}")
    dead = late.tombstones(deletes, touched, shape)
    if len(context.table.marts) > 1:
        dead = context.keep(("tombstones", every, step.upto), lambda: dead)
    judged = late.judged(new, found, dead, shape, FILE, POS)
    folded = context.keep((step.mart, "folded", step.upto), lambda: newest(judged, shape, *_verdicts(mart, shape)))
    return Increment(
        name=step.mart,
        mart=mart,
        shape=shape,
        changes=changes,
        target=target,
        new=new,
        found=found,
        folded=folded,
        counts=_counts(folded),
        is_few=is_few,
    )


def _verdicts(mart: Current | History, shape: Shape) -> list[str]:
    """Aggregates that decide per key how its changes are applied."""
    is_late, incomplete = late.is_late(shape), f"bool_or({late.is_incomplete(shape)})"
    slow, stale = f"bool_or({is_late}) OR {incomplete}", "false"
    match mart:
        case History():
            slow = f"bool_or({late.is_not_after(shape)} OR {is_late}) OR {incomplete}"
        case Current(deletes="hard") if not shape.fills:
            # A whole row needs no older one, so a late change simply drops out.
            slow, stale = "false", f"bool_and({is_late})"
        case _:
            pass
    return [
        f"count_if({is_late}) AS {_LATE}",
        f"bool_or({late.IN_TARGET}) AS {late.IN_TARGET}",
        f"{slow} AS {_SLOW}",
        f"{stale} AS {_STALE}",
        f"any_value({FILE}) AS {FILE}",
        f"any_value({POS}) AS {POS}",
    ]


def _counts(folded: DataFrame) -> dict[str, int]:
    upsert, known = f"{NEWEST}.{r.CLASS} = '{r.UPSERT}'", late.IN_TARGET
    row = folded.selectExpr(
        f"coalesce(sum({_LATE}), 0) AS late",
        f"count_if({_SLOW}) AS slow",
        f"count_if({_SLOW} OR ({known} AND NOT {_STALE})) AS replaced",
        f"count_if(NOT {_STALE} AND {upsert} AND NOT {known}) AS inserted",
        f"count_if(NOT {_STALE} AND {upsert} AND {known}) AS updated",
        f"count_if(NOT {_STALE} AND NOT {upsert} AND {known}) AS deleted",
        f"count_if(NOT {upsert} AND {VALUES} IS NULL AND {known} AND NOT {_SLOW}) AS bare_deletes",
    ).first()
    if row is None:
        raise FrazilError("no counts of a batch's keys")
    return {name: int(number) for name, number in row.asDict().items()}


def _new_states(mine: Increment) -> DataFrame:
    """Rows of the touched keys of a current table."""
    shape, is_soft = mine.shape, isinstance(mine.mart, Current) and mine.mart.deletes == "soft"
    fast = mine.folded.where(f"NOT {_SLOW} AND NOT {_STALE}")
    if is_soft and mine.counts["bare_deletes"]:
        # A delete that came without its row's values: the table has the last known ones.
        values = f"struct({columns_of(shape.columns, 't')})"
        bare = query(
            f"""
            SELECT /*+ BROADCAST(k) */ {columns_of(shape.keys, "k")}, k.{NEWEST}, {values} AS {VALUES}
            FROM frazil_target AS t JOIN frazil_bare AS k ON {same(shape.keys, "t", "k")}""",
            frazil_target=mine.target,
            frazil_bare=fast.where(f"{late.IN_TARGET} AND {VALUES} IS NULL"),
        )
        kept = fast.where(f"{VALUES} IS NOT NULL").selectExpr(*map(quote, shape.keys), NEWEST, VALUES)
        fast = kept.union(bare)
    rows = soft(fast, shape) if is_soft else hard(fast, shape)
    if mine.is_slow:
        rows = rows.unionByName(all_rows(mine.mart, _slow_changes(mine), shape))
    return rows


def _new_versions(mine: Increment) -> DataFrame:
    """Versions of all touched keys: the open one and what follows, or for slow keys all of them."""
    shape, new, found = mine.shape, mine.new, mine.found
    if mine.is_slow:
        slow = mine.folded.where(_SLOW)
        new, found = (late.of_keys(rows, slow, shape.keys, among=False) for rows in (new, found))
    held = found.selectExpr(
        *map(quote, shape.columns),
        f"CASE WHEN is_deleted THEN '{r.DELETE}' ELSE '{r.UPSERT}' END AS {r.CLASS}",
        r.POSITION,
        r.ROW,
        f"valid_from AS {EVENT_TIME}",
        f"true AS {BASE}",
    )
    change = [*map(quote, shape.columns), r.CLASS, r.POSITION, r.ROW, EVENT_TIME, f"false AS {BASE}"]
    rows = new.selectExpr(*change).union(held)
    if mine.is_slow:
        slow_changes = _slow_changes(mine)
        whole = fill(slow_changes, shape) if shape.fills else slow_changes
        rows = rows.union(whole.selectExpr(*change))
    elif mine.is_few:
        rows = rows.coalesce(1)
    deletes = mine.mart.deletes if isinstance(mine.mart, History) else "close"
    return versions(rows, shape, "mark" if deletes == "mark" else "close")


def _slow_changes(mine: Increment) -> DataFrame:
    return late.of_keys(mine.changes, mine.folded.where(_SLOW), mine.shape.keys)
