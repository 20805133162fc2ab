"""Apply a batch to a mart that has rows: delete what it replaces, append what it brings.

The rows of touched keys are deleted against a broadcast and the new ones appended, so the target is never
shuffled. Keys with late or incomplete changes are folded anew from all their changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import FrazilError
from frazil.failpoints import failpoint
from frazil.marts import late
from frazil.marts.all_rows import all_rows
from frazil.marts.current import hard, soft
from frazil.marts.fold import NEWEST, VALUES, fill, newest
from frazil.marts.history import BASE, versions
from frazil.marts.shape import EVENT_TIME, Shape, columns_of
from frazil.silver.batches import batches, other_batches
from frazil.spec import Current, History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from frazil.engine.context import Context
    from frazil.engine.report import MartReport
    from frazil.lake.commit import Batch
    from frazil.steps import UpdateMart

_KEYS_VIEW = "frazil_keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """What one mart has to take on.

    Attributes:
        mart, step, shape: the mart, what to do, and the table's parts.
        changes: all changes of silver, with event time.
        target: rows of the mart as they are, with event time. Read at ``main``: the branch will have lost
            rows by the time the new ones are computed.
    """

    mart: Current | History
    step: UpdateMart
    shape: Shape
    changes: DataFrame
    target: DataFrame

    @property
    def heads(self) -> DataFrame:
        """Rows that stand for the newest state of a key."""
        return self.target.where("is_current") if isinstance(self.mart, History) else self.target


def split(context: Context, mine: Increment, batch: Batch, report: MartReport) -> None:
    """Write one batch of changes to the branch of a mart, and count what it does."""
    shape, step = mine.shape, mine.step
    span = (step.after, step.upto)
    new = context.keep(("new", span), lambda: batches(mine.changes, *span))
    touched = context.keep(("touched", span), lambda: new.select(*columns_of(shape.keys)).distinct())
    held = late.held(mine.heads, _tombstones(context, mine, new), touched, shape)
    joined = new.join(F.broadcast(held), list(shape.keys), "left")
    folded = context.keep((step.mart, span), lambda: newest(joined, shape, *_verdicts(mine)))
    counts = _counts(folded, shape)
    report.late = counts["late"]
    report.inserted, report.updated, report.deleted = counts["inserted"], counts["updated"], counts["deleted"]

    is_history = isinstance(mine.mart, History)
    rows = (_new_versions if is_history else _new_states)(mine, new, folded, counts)
    if counts["in_target"] or counts["slow"]:
        folded.createOrReplaceTempView(_KEYS_VIEW)
        batch.delete(_replaced(shape, is_history=is_history, has_slow=counts["slow"] > 0))
    failpoint("mart.after_delete")
    batch.append(rows)


def _tombstones(context: Context, mine: Increment, new: DataFrame) -> DataFrame:
    """Deletes of earlier batches that can make a change late.

    Only those as new as the batch's oldest change can; older ones are pruned by their files' statistics.
    """
    shape, step = mine.shape, mine.step
    deletes = other_batches(mine.changes, step.after, step.upto).where(F.col(r.CLASS) == r.DELETE)
    needed = deletes.select(*columns_of((*shape.keys, *shape.order_columns)), EVENT_TIME)
    if not shape.sequence_by or not (shape.times_follow_order or isinstance(mine.mart, Current)):
        return needed
    first = F.col(quote(shape.sequence_by[0]))

    def as_new() -> DataFrame:
        oldest = new.agg(F.min(first)).first()
        return needed.where(first >= F.lit(oldest[0] if oldest else None))

    return context.keep(("tombstones", step.after, step.upto), as_new)


def _verdicts(mine: Increment) -> list[Column]:
    """Aggregates that decide per key how its changes are applied."""
    shape = mine.shape
    late_here = late.is_late(shape)
    incomplete = F.bool_or(late.is_incomplete(shape))
    slow, stale = F.bool_or(late_here) | incomplete, F.lit(False)
    match mine.mart:
        case History():
            slow = F.bool_or(late.is_not_after(shape) | late_here) | incomplete
        case Current(deletes="hard") if not shape.fills:
            # A whole row needs no older one, so a late change simply drops out.
            slow, stale = F.lit(False), F.bool_and(late_here)
        case _:
            pass
    return [
        F.count_if(late_here).alias("_late"),
        F.coalesce(F.first(late.IN_TARGET), F.lit(False)).alias("_in_target"),
        slow.alias("_slow"),
        stale.alias("_stale"),
    ]


def _counts(folded: DataFrame, shape: Shape) -> dict[str, int]:
    upsert = F.col(f"{NEWEST}.{r.CLASS}") == r.UPSERT
    applied, in_target, slow = ~F.col("_stale"), F.col("_in_target"), F.col("_slow")
    row = folded.agg(
        F.sum("_late").alias("late"),
        F.count_if(slow).alias("slow"),
        F.count_if(in_target).alias("in_target"),
        F.count_if(applied & upsert & ~in_target).alias("inserted"),
        F.count_if(applied & upsert & in_target).alias("updated"),
        F.count_if(applied & ~upsert & in_target).alias("deleted"),
        F.count_if(~upsert & F.col(VALUES).isNull() & in_target & ~slow).alias("bare_deletes"),
    ).first()
    if row is None:
        raise FrazilError(f"no counts for the keys {shape.keys}")
    return {name: int(row[name] or 0) for name in row.asDict()}


def _new_states(mine: Increment, _: DataFrame, folded: DataFrame, counts: dict[str, int]) -> DataFrame:
    """Rows of the touched keys of a current table."""
    shape, is_soft = mine.shape, isinstance(mine.mart, Current) and mine.mart.deletes == "soft"
    fast = folded.where("NOT _slow AND NOT _stale")
    if is_soft and counts["bare_deletes"]:
        # A delete that came without its row's values: the table has the last known ones.
        last_known = mine.target.select(*columns_of(shape.keys), F.struct(*columns_of(shape.columns)).alias("_row"))
        bare = fast.where(f"_in_target AND {VALUES} IS NULL").drop(VALUES)
        rows = last_known.join(F.broadcast(bare), list(shape.keys)).withColumnRenamed("_row", VALUES)
        fast = fast.where(f"{VALUES} IS NOT NULL").unionByName(rows, allowMissingColumns=True)
    rows = soft(fast, shape) if is_soft else hard(fast, shape)
    if counts["slow"]:
        again = late.of_keys(mine.changes, folded.where("_slow"), shape.keys)
        rows = rows.unionByName(all_rows(mine.mart, again, shape))
    return rows


def _new_versions(mine: Increment, new: DataFrame, folded: DataFrame, counts: dict[str, int]) -> DataFrame:
    """Versions of all touched keys: the open one and what follows, or for slow keys all of them."""
    shape = mine.shape
    fast = folded.where("NOT _slow")
    held = late.of_keys(mine.heads, fast.where("_in_target"), shape.keys).select(
        *columns_of(shape.columns),
        F.when(F.col("is_deleted"), r.DELETE).otherwise(r.UPSERT).alias(r.CLASS),
        *columns_of((r.POSITION, r.ROW)),
        F.col("valid_from").alias(EVENT_TIME),
        F.lit(True).alias(BASE),
    )
    recent = late.of_keys(new, fast, shape.keys) if counts["slow"] else new
    rows = recent.withColumn(BASE, F.lit(False)).unionByName(held, allowMissingColumns=True)
    if counts["slow"]:
        slow = late.of_keys(mine.changes, folded.where("_slow"), shape.keys)
        whole = fill(slow, shape) if shape.fills else slow
        rows = rows.unionByName(whole.withColumn(BASE, F.lit(False)), allowMissingColumns=True)
    deletes = mine.mart.deletes if isinstance(mine.mart, History) else "close"
    return versions(rows, shape, "mark" if deletes == "mark" else "close")


def _replaced(shape: Shape, *, is_history: bool, has_slow: bool) -> str:
    """SQL that tells of a row ``t`` of the mart whether the batch replaces it."""
    same = " AND ".join(f"k.{quote(key)} = t.{quote(key)}" for key in shape.keys)

    def among(which: str) -> str:
        return f"EXISTS (SELECT /*+ BROADCAST(k) */ 1 FROM {_KEYS_VIEW} AS k WHERE {same} AND ({which}))"

    if not is_history:
        return among("k._slow OR (k._in_target AND NOT k._stale)")
    if has_slow:
        return among("k._slow OR (k._in_target AND t.is_current)")
    # The open versions are a partition of their own, and only that is read.
    return f"t.is_current AND {among('k._in_target')}"
