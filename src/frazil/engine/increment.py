"""What a batch means for a mart that has rows: which of them it replaces, and by what.

Keys with late or incomplete changes are folded anew from all their changes; all others from the batch and the rows
the mart has of them, which are looked for once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.engine.size import all_changes, new_changes
from frazil.marts import late
from frazil.marts.all_rows import all_rows
from frazil.marts.current import hard, soft, states
from frazil.marts.few import BARE, LIVES
from frazil.marts.fold import NEWEST, VALUES, fill, newest
from frazil.marts.history import BASE, versions
from frazil.marts.query import query
from frazil.marts.shape import EVENT_TIME, columns_of, same
from frazil.silver.batches import other_batches
from frazil.spec import Current, History
from frazil.spec.names import quote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from frazil.engine.context import Context
    from frazil.engine.size import Size
    from frazil.marts.shape import Shape
    from frazil.steps import UpdateMart

FEW_CHANGES = 500_000
"""Batches of up to this many changes are folded in one task: what one task holds is not shuffled."""

_FILES_A_TASK: Final = 64
"""Silver's files up to which one task reads the deletes among them: about half, and so many small ones Iceberg
gives to a task by itself."""

_ROWS_ALONG: Final = 10_000_000
"""Rows of a current table up to which the first column of their order is read along with their places. Of more, one
more look at what is not older than the batch costs less, which is a few files of many."""

AT_FILE, AT_POS = "_cdc_at_file", "_cdc_at_pos"
"""Where a row of the mart stands: its file, and its number in it."""

SLOW, STALE, LATE = "_cdc_slow", "_cdc_stale", "_cdc_late"
KEYS = "_cdc_keys"
FLAGS: Final = ("is_deleted", "deleted_at", r.POSITION, r.ROW)
COMPARED: Final = (LATE, SLOW, STALE)
"""Verdicts on a folded key that come from what there is of it."""
VERDICT: Final = (*COMPARED, f"{NEWEST}.{r.CLASS} = '{r.UPSERT}' AS {LIVES}", f"{VALUES} IS NULL AS {BARE}")
"""What there is to say of a folded key beside whether the mart has a row of it, as SQL."""
KINDS: Final = (SLOW, STALE, LIVES, BARE, late.IN_TARGET, late.LIVED)
"""Columns of which :meth:`Seen.of` is made, each true or false."""
_REPLACED: Final = f"({SLOW} OR ({late.IN_TARGET} AND NOT {STALE}))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """What one mart has to take on.

    Attributes:
        context: the table's part of the run.
        step: which mart, and which batches.
        mart, shape: the mart and the table's parts.
        size: how much the batch is.
        target: rows of the mart as they are, with event time and place. Read at ``main``: the branch will have lost
            rows by the time the new ones are computed.
        heads: those that may be the newest of one of the batch's keys, by what is known of the whole batch.
        touched: keys of the batch's changes.
        found: the mart's rows of the batch's keys, as :func:`frazil.marts.late.found` gives them, with places.
        along: ``found`` has the first column of their order too.
        compares: changes may be late.
        by_order: the order alone tells whether they are; history may ask for event times.
        kept: what :meth:`once` has of ``folded``.
    """

    context: Context
    step: UpdateMart
    mart: Current | History
    shape: Shape
    size: Size
    target: DataFrame
    heads: DataFrame
    touched: DataFrame
    found: DataFrame
    along: bool
    compares: bool
    by_order: bool
    kept: DataFrame | None = None

    @property
    def new(self) -> DataFrame:
        """The batch's changes, with event time."""
        new = new_changes(self.context, self.step, self.shape)
        return new.coalesce(1) if self.is_few else new

    @property
    def is_few(self) -> bool:
        """Whether the changes are so few that one task folds them."""
        return self.size.changes <= FEW_CHANGES

    def in_memory(self) -> pa.Table:
        """Bring the batch's changes to the driver, as silver has them; what refined them may have left them there."""
        here = self.context.here.get((self.step.after, self.step.upto))
        if here is not None:
            return here.rows
        names = (*self.shape.columns, r.CLASS, r.POSITION, r.ROW, r.BATCH, r.KNOWN)
        return self.new.select(*map(quote, names)).toArrow()

    def fold(self) -> DataFrame:
        """Fold the batch: one row per key, with the verdicts that come from comparing each change with what there is.

        Cost: the fold, and where it compares a scan of those rows of the mart and deletes in silver that are not older
        than the batch, against broadcasts.
        """
        verdicts = self.verdicts(compared=self.compares)
        return newest(self.judged() if self.compares else self.new, self.shape, *verdicts)

    def judged(self) -> DataFrame:
        """Put beside every change of the batch how new what its key already has is."""
        held = self.found if isinstance(self.mart, History) else self.newer(self.touched)
        name = "tombstones", self.by_order, self.step.upto
        dead = self.context.keep(name, self.tombstones) if len(self.context.table.marts) > 1 else self.tombstones()
        return late.judged(self.new, late.held(held, self.shape), dead, self.shape)

    def tombstones(self) -> DataFrame:
        """Give the newest delete of each of the batch's keys in earlier batches."""
        files = int(self.context.head(self.context.changes).summary.get("total-data-files", 0))
        earlier = other_batches(all_changes(self.context, self.shape), self.step.after, self.step.upto)
        deletes = earlier.where(f"{r.CLASS} = '{r.DELETE}' AND {self.near_in_order()}")
        return late.tombstones(deletes, self.touched, self.shape, in_one_task=files <= _FILES_A_TASK)

    def newer(self, keys: DataFrame) -> DataFrame:
        """Give the mart's rows of some keys that may make a change late, by what is known of the whole batch."""
        # History keeps what it found; a current table is looked through again.
        among = self.found if isinstance(self.mart, History) else self.heads.where(self.near_in_order())
        return late.of_keys(among, keys, self.shape.keys)

    def near_in_order(self) -> str:
        """SQL condition that all rows fulfil that may make a change of the batch late; files are pruned by it."""
        if not (self.shape.sequence_by and self.by_order):
            return "true"
        if self.shape.types[self.shape.sequence_by[0]] in ("float", "double"):
            return "true"  # NaN is the greatest number here, but files are pruned as if it were none
        return f"{quote(self.shape.sequence_by[0])} >= {self.size.oldest}"

    def verdicts(self, *, compared: bool) -> list[str]:
        """Aggregates that decide per key how its changes, judged if ``compared``, are applied; as SQL."""
        mart, shape = self.mart, self.shape
        is_late, incomplete = late.is_late(shape) if compared else "false", f"bool_or({late.is_incomplete(shape)})"
        slow = f"bool_or({is_late}) OR {incomplete}"
        if isinstance(mart, History) and compared:
            slow = f"bool_or({late.is_not_after(shape)} OR {is_late}) OR {incomplete}"
        elif isinstance(mart, Current) and mart.deletes == "hard" and not shape.fills:
            # A whole row needs no older one, so a late change simply drops out.
            slow = "false"
        return [
            f"count_if({is_late}) AS {LATE}",
            f"{slow} AS {SLOW}",
            f"bool_and({is_late}) AS {STALE}",
        ]

    @property
    def folded(self) -> DataFrame:
        """What :meth:`fold` gives, with whether the mart has a row of each key, and where."""
        if self.kept is not None:
            return self.kept
        return late.placed(self.fold(), self.found, self.shape, AT_FILE, AT_POS)

    def once(self) -> Self:
        """The same, with ``folded`` computed once, however often it is read."""
        return replace(self, kept=self.context.keep((self.step.mart, "folded"), lambda: self.folded))

    def rows(self, seen: Seen) -> DataFrame:
        """Rows that the batch brings, of all keys whose rows it replaces and of new ones."""
        return _new_versions(self, seen) if isinstance(self.mart, History) else _new_states(self, seen)

    def keys(self) -> DataFrame:
        """Keys of which rows are replaced: with ``_cdc_slow``, which tells that all rows of the key are."""
        return self.folded.where(_REPLACED).selectExpr(*map(quote, self.shape.keys), SLOW)

    def replaced(self) -> str:
        """SQL condition, between a row ``t`` of the mart and a row ``k`` of :meth:`keys` with equal keys."""
        return f"(k.{SLOW} OR t.is_current)" if isinstance(self.mart, History) else "true"

    def seen(self) -> Seen:
        """Count the verdicts."""
        kinds = self.folded.selectExpr(*VERDICT, late.IN_TARGET, late.LIVED).groupBy(*KINDS)
        return Seen.of(kinds.agg(F.expr(f"count(*) AS {KEYS}"), F.expr(f"sum({LATE}) AS {LATE}")).toArrow())


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How many keys of a batch there are of each verdict; ``late`` counts changes.

    Attributes:
        late, inserted, updated, deleted: as :class:`frazil.engine.report.MartReport` defines them.
        slow: keys folded anew from all their changes.
        replaced: keys of which the mart loses rows.
        bare_deletes: keys that go, by a change that came without the row's values.
    """

    late: int
    slow: int
    replaced: int
    inserted: int
    updated: int
    deleted: int
    bare_deletes: int

    @classmethod
    def of(cls, kinds: pa.Table) -> Self:
        """Count from numbers of keys of each kind: ``KINDS``, ``_cdc_keys``, and ``_cdc_late``, their late changes."""
        of: Counter[str] = Counter()
        for kind in kinds.to_pylist():
            keys, slow, stale = kind[KEYS], kind[SLOW], kind[STALE]
            is_there, lived = kind[late.IN_TARGET], kind[late.LIVED]
            lives = lived if stale else kind[LIVES]  # late changes do not decide whether a key lives
            of["late"] += kind[LATE]
            of["slow"] += keys * slow
            of["replaced"] += keys * (slow or (is_there and not stale))
            of["inserted"] += keys * (lives and not lived)
            of["updated"] += keys * (lives and lived and not stale)
            of["deleted"] += keys * (lived and not lives)
            of["bare_deletes"] += keys * (not kind[LIVES] and kind[BARE] and is_there and not slow)
        return cls(**{field.name: of[field.name] for field in fields(cls)})


def increment(
    context: Context,
    step: UpdateMart,
    *,
    mart: Current | History,
    shape: Shape,
    target: DataFrame,
    size: Size,
    rows: int,
) -> Increment:
    """Fold one batch of changes, and judge every key of it.

    Args:
        context: the table's part of the run.
        step: what to do.
        mart: the mart.
        shape: the table's parts.
        target: rows of the mart, with event time and place.
        size: how much the batch is.
        rows: how many rows the mart has, about.

    Cost: nothing yet; once it is read, one scan of the mart for the batch's keys, one fold, and where changes may be
    late a look at those tombstones, and rows of a current table, that are not older than the batch.
    """
    is_history = isinstance(mart, History)
    # Where each change is newer than all before, none is late. History asks for event times, which may differ.
    by_order = shape.times_follow_order or not is_history
    compares = not (size.follows and by_order)
    along = is_history or rows <= _ROWS_ALONG
    also = [AT_FILE, AT_POS]
    if is_history:  # the rows themselves are needed again
        also += [quote(name) for name in shape.columns if name not in shape.keys]
        also += ["valid_from", "is_deleted", r.POSITION, r.ROW, EVENT_TIME]
    elif compares and along:
        also += [quote(name) for name in shape.order_columns[:1] if name not in shape.keys]
    here = context.here.get((step.after, step.upto))
    if here is None:
        touched = new_changes(context, step, shape).select(*map(quote, shape.keys))
        touched = touched.coalesce(1) if size.changes <= FEW_CHANGES else touched
    else:
        touched = here.frame(context.spark, shape.keys)
    heads = target.where(f"is_current AND {size.near}" if is_history else size.near)
    lives = "NOT is_deleted" if is_history or mart.deletes == "soft" else "true"
    found = late.found(heads, touched, shape, *also, lives=lives)
    return Increment(
        context=context,
        step=step,
        mart=mart,
        shape=shape,
        size=size,
        target=target,
        heads=heads,
        touched=touched,
        found=context.keep((step.mart, "found", step.upto), lambda: found) if is_history else found,
        along=along,
        compares=compares,
        by_order=by_order,
    )


def _new_states(mine: Increment, seen: Seen) -> DataFrame:
    """Rows of the touched keys of a current table."""
    shape, is_soft = mine.shape, isinstance(mine.mart, Current) and mine.mart.deletes == "soft"
    fast = mine.folded.where(f"NOT {SLOW} AND NOT {STALE}")
    rows = soft(fast, shape) if is_soft else hard(fast, shape)
    if is_soft and seen.bare_deletes:
        dead = states(fast.where(f"{late.IN_TARGET} AND {VALUES} IS NULL"), shape, "soft")
        rows = rows.unionByName(last_known(mine, dead))
    if seen.slow:
        rows = rows.unionByName(all_rows(mine.mart, _slow_changes(mine), shape))
    return rows


def last_known(mine: Increment, dead: DataFrame) -> DataFrame:
    """Rows of a soft table for keys whose delete came without values: the table has those, ``dead`` the flags."""
    shape = mine.shape
    return query(
        f"""
        SELECT /*+ BROADCAST(d) */ {columns_of(shape.columns, "t")}, {columns_of(FLAGS, "d")}
        FROM frazil_target AS t JOIN frazil_dead AS d ON {same(shape.keys, "t", "d")}""",
        frazil_target=mine.target,
        frazil_dead=dead,
    )


def _new_versions(mine: Increment, seen: Seen) -> DataFrame:
    """Versions of all touched keys: the open one and what follows, or for slow keys all of them."""
    shape, new, found = mine.shape, mine.new, mine.found
    if seen.slow:
        slow = mine.folded.where(SLOW)
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
    if seen.slow:
        slow_changes = _slow_changes(mine)
        whole = fill(slow_changes, shape) if shape.fills else slow_changes
        rows = rows.union(whole.selectExpr(*change))
    elif mine.is_few:
        rows = rows.coalesce(1)
    deletes = mine.mart.deletes if isinstance(mine.mart, History) else "close"
    return versions(rows, shape, "mark" if deletes == "mark" else "close")


def _slow_changes(mine: Increment) -> DataFrame:
    return late.of_keys(all_changes(mine.context, mine.shape), mine.folded.where(SLOW), mine.shape.keys)
