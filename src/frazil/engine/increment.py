"""What a batch means for a mart that has rows: which of them it replaces, and by what.

Keys with late or incomplete changes are folded anew from all their changes; all others from the batch and the rows
the mart has of them, which are looked for once.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.engine.size import new_changes
from frazil.lake.row_delta import FILE_PATH, LIVING, POS
from frazil.marts import late
from frazil.marts.all_rows import all_rows
from frazil.marts.current import STANDS, hard, soft, states
from frazil.marts.fold import NEWEST, VALUES, fill, newest
from frazil.marts.history import BASE, versions
from frazil.marts.query import query
from frazil.marts.shape import EVENT_TIME, columns_of, same
from frazil.silver.batches import other_batches
from frazil.spec import Current, History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.engine.context import Context
    from frazil.engine.size import Size
    from frazil.marts.shape import Shape
    from frazil.steps import UpdateMart

FEW_CHANGES = 500_000
"""Batches of up to this many changes are folded in one task: what one task holds is not shuffled."""

AT_FILE, AT_POS = "_cdc_at_file", "_cdc_at_pos"
"""Where a row of the mart stands: its file, and its number in it."""

_JOB_GROUP = "spark.jobGroup.id"
_SLOW, _STALE, _LATE = "_cdc_slow", "_cdc_stale", "_cdc_late"
_LIVES, _BARE, _KEYS = "_cdc_lives", "_cdc_bare", "_cdc_keys"
_FLAGS: Final = ("is_deleted", "deleted_at", r.POSITION, r.ROW)
_REPLACED: Final = f"({_SLOW} OR ({late.IN_TARGET} AND NOT {_STALE}))"
_VERDICT: Final = (
    _LATE,
    _SLOW,
    _STALE,
    f"{NEWEST}.{r.CLASS} = '{r.UPSERT}' AS {_LIVES}",
    f"{VALUES} IS NULL AS {_BARE}",
)
"""What there is to say of a folded key beside whether the mart has a row of it, as SQL."""
_KINDS: Final = (_SLOW, _STALE, _LIVES, _BARE, late.IN_TARGET)
"""Columns of which :meth:`Seen.of` is made, each true or false."""


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
        found: the mart's rows of the batch's keys, as :func:`frazil.marts.late.found` gives them.
        fold: one row per key of the batch, with the verdicts on it; computed anew whenever it is read.
        is_few: so few changes that one task folds them.
        is_placed: ``fold`` tells too of which keys the mart has rows, and where.
    """

    name: str
    mart: Current | History
    shape: Shape
    changes: DataFrame
    target: DataFrame
    new: DataFrame
    found: DataFrame
    fold: DataFrame
    is_few: bool
    is_placed: bool = False

    @property
    def folded(self) -> DataFrame:
        """One row per key of the batch, with the verdicts on it, whether the mart has a row of it, and where."""
        return self.fold if self.is_placed else late.placed(self.fold, self.found, self.shape, AT_FILE, AT_POS)

    def kept(self, context: Context) -> Self:
        """The same, with ``folded`` computed once, however often it is read."""
        return replace(self, fold=context.keep((self.name, "folded"), lambda: self.folded), is_placed=True)

    def rows(self, seen: Seen) -> DataFrame:
        """Rows that the batch brings, of all keys whose rows it replaces and of new ones."""
        return _new_versions(self, seen) if isinstance(self.mart, History) else _new_states(self, seen)

    def keys(self) -> DataFrame:
        """Keys of which rows are replaced: with ``_cdc_slow``, which tells that all rows of the key are."""
        return self.folded.where(_REPLACED).selectExpr(*map(quote, self.shape.keys), _SLOW)

    def replaced(self) -> str:
        """SQL condition, between a row ``t`` of the mart and a row ``k`` of :meth:`keys` with equal keys."""
        return f"(k.{_SLOW} OR t.is_current)" if isinstance(self.mart, History) else "true"

    def seen(self) -> Seen:
        """Count the verdicts."""
        kinds = self.folded.selectExpr(*_VERDICT, late.IN_TARGET).groupBy(*_KINDS)
        return Seen.of(kinds.agg(F.expr(f"count(*) AS {_KEYS}"), F.expr(f"sum({_LATE}) AS {_LATE}")).toArrow())

    def fetched(self) -> Fetched | None:
        """Bring all that the batch means to the driver; None where a key is folded anew, which may have any rows.

        Cost: one fold of the batch, for history another of the same changes, for deletes without values a look for
        those; what it brings is as large as the batch.
        """
        keys = self._keys_here()
        kinds = keys.group_by([*_KINDS]).aggregate([([], "count_all"), (_LATE, "sum")])
        seen = Seen.of(kinds.rename_columns([*_KINDS, _KEYS, _LATE]))
        if seen.slow:
            return None
        gone = keys.filter(pc.and_not(keys[late.IN_TARGET], keys[_STALE]))
        # Of a key that is not folded anew only the newest version goes.
        places = {FILE_PATH: gone[AT_FILE], POS: gone[AT_POS], LIVING: pa.repeat(True, gone.num_rows)}
        return Fetched(seen=seen, rows=self._rows_here(keys, seen), places=pa.table(places))

    def _keys_here(self) -> pa.Table:
        """Bring the folded keys, as rows of the mart where it is no history, with verdicts and places."""
        if isinstance(self.mart, History):
            keys = self.fold.selectExpr(*map(quote, self.shape.keys), *_VERDICT)
        else:
            keys = states(self.fold, self.shape, self.mart.deletes, *_VERDICT)
        spark = self.target.sparkSession.sparkContext
        group = spark.getLocalProperty(_JOB_GROUP)

        def look() -> pa.Table:
            spark.setLocalProperty(_JOB_GROUP, group or "")  # so that its jobs count as this table's
            return self.found.select(*map(quote, self.shape.keys), AT_FILE, AT_POS).toArrow()

        with ThreadPoolExecutor(1) as beside:
            looked = beside.submit(look)
            return _placed(keys.toArrow(), looked.result(), self.shape.keys)

    def _rows_here(self, keys: pa.Table, seen: Seen) -> pa.Table:
        """Bring the rows of a batch without keys that are folded anew."""
        if isinstance(self.mart, History):
            return self.rows(seen).toArrow()
        rows = keys.filter(pc.and_not(keys[STANDS], keys[_STALE]))
        if self.mart.deletes == "soft" and seen.bare_deletes:
            bare = pc.and_(pc.and_not(keys[_BARE], keys[_LIVES]), keys[late.IN_TARGET])
            dead = self.target.sparkSession.createDataFrame(keys.filter(bare).select([*self.shape.keys, *_FLAGS]))
            known = _last_known(self, dead).toArrow()
            rows = pa.concat_tables([rows.select(known.column_names), known], promote_options="permissive")
        return rows


def _placed(keys: pa.Table, found: pa.Table, names: Sequence[str]) -> pa.Table:
    """Put beside folded keys whether the mart has a row of them, and where; it has one at most."""
    numbers = pa.array(range(keys.num_rows), pa.int64())
    numbered = keys.select(names).append_column(_KEYS, numbers)
    # A key of the mart may have a wider type than the batch's.
    alike = found.cast(pa.schema([*numbered.schema][:-1] + [*found.schema][len(names) :]))
    both = alike.join(numbered, keys=[*names], join_type="inner")
    at = pc.index_in(numbers, value_set=both[_KEYS])
    keys = keys.append_column(late.IN_TARGET, pc.is_valid(at))
    for name in (AT_FILE, AT_POS):
        keys = keys.append_column(name, both[name].take(at))
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How many keys of a batch there are of each verdict; ``late`` counts changes.

    Attributes:
        late: changes older than what their key has.
        slow: keys folded anew from all their changes.
        replaced: keys of which the mart loses rows.
        inserted, updated, deleted: keys that come, change and go.
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
        """Count from numbers of keys of each kind: ``_KINDS``, ``_cdc_keys``, and ``_cdc_late``, their late changes."""
        of: Counter[str] = Counter()
        for kind in kinds.to_pylist():
            keys, slow, stale, lives, is_there = (kind[name] for name in (_KEYS, _SLOW, _STALE, _LIVES, late.IN_TARGET))
            of["late"] += kind[_LATE]
            of["slow"] += keys * slow
            of["replaced"] += keys * (slow or (is_there and not stale))
            if not stale:
                verdict = ("updated" if is_there else "inserted") if lives else "deleted" if is_there else "nothing"
                of[verdict] += keys
            of["bare_deletes"] += keys * (not lives and kind[_BARE] and is_there and not slow)
        return cls(**{field.name: of[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """An increment in the driver's memory.

    Attributes:
        seen: its counts.
        rows: Arrow table with the columns of :meth:`Increment.rows`, and others.
        places: Arrow table of the places of the rows they replace, see :mod:`frazil.lake.row_delta`.
    """

    seen: Seen
    rows: pa.Table
    places: pa.Table


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

    Cost: nothing yet; once it is read, one scan of the mart for the batch's keys, one fold, and where changes may be
    late a look at those tombstones, and rows of a current table, that are not older than the batch.
    """
    new, is_few = new_changes(context, step, changes, shape), size.changes <= FEW_CHANGES
    if is_few:
        new = new.coalesce(1)
    touched = new.select(*map(quote, shape.keys))
    is_history = isinstance(mart, History)
    also = [AT_FILE, AT_POS]
    if is_history:  # the rows themselves are needed again
        also += [quote(name) for name in shape.columns if name not in shape.keys]
        also += ["valid_from", "is_deleted", r.POSITION, r.ROW, EVENT_TIME]
    heads = target.where(f"is_current AND {size.near}" if is_history else size.near)
    found = late.found(heads, touched, shape, *also)
    if is_history:
        found = context.keep((step.mart, "found", step.upto), lambda: found)
    # Where each change is newer than all before, none is late. History asks for event times, which may differ.
    in_time = size.follows and (shape.times_follow_order or not is_history)
    judged = new
    if not in_time:
        every = is_history and not shape.times_follow_order
        deletes = other_batches(changes, step.after, step.upto).where(f"{r.CLASS} = '{r.DELETE}'")
        if shape.sequence_by and not every:
            # Only what is as new as the batch's oldest change matters; the rest is pruned by its files' statistics.
            newer = f"{quote(shape.sequence_by[0])} >= {size.oldest}"
            deletes, heads = deletes.where(newer), heads.where(newer)
        dead = late.tombstones(deletes, touched, shape)
        if len(context.table.marts) > 1:
            dead = context.keep(("tombstones", every, step.upto), lambda: dead)
        # The rows that history found have their order and time with them.
        held = late.held(found if is_history else heads, touched, shape)
        judged = late.judged(new, held, dead, shape)
    return Increment(
        name=step.mart,
        mart=mart,
        shape=shape,
        changes=changes,
        target=target,
        new=new,
        found=found,
        fold=newest(judged, shape, *_judge(mart, shape, in_time=in_time)),
        is_few=is_few,
    )


def _judge(mart: Current | History, shape: Shape, *, in_time: bool) -> list[str]:
    """Aggregates that decide per key how its changes are applied."""
    is_late, incomplete = "false" if in_time else late.is_late(shape), f"bool_or({late.is_incomplete(shape)})"
    slow, stale = f"bool_or({is_late}) OR {incomplete}", "false"
    match mart:
        case History() if not in_time:
            slow = f"bool_or({late.is_not_after(shape)} OR {is_late}) OR {incomplete}"
        case Current(deletes="hard") if not shape.fills:
            # A whole row needs no older one, so a late change simply drops out.
            slow, stale = "false", f"bool_and({is_late})"
        case _:
            pass
    return [
        f"count_if({is_late}) AS {_LATE}",
        f"{slow} AS {_SLOW}",
        f"{stale} AS {_STALE}",
    ]


def _new_states(mine: Increment, seen: Seen) -> DataFrame:
    """Rows of the touched keys of a current table."""
    shape, is_soft = mine.shape, isinstance(mine.mart, Current) and mine.mart.deletes == "soft"
    fast = mine.folded.where(f"NOT {_SLOW} AND NOT {_STALE}")
    rows = soft(fast, shape) if is_soft else hard(fast, shape)
    if is_soft and seen.bare_deletes:
        dead = states(fast.where(f"{late.IN_TARGET} AND {VALUES} IS NULL"), shape, "soft")
        rows = rows.unionByName(_last_known(mine, dead))
    if seen.slow:
        rows = rows.unionByName(all_rows(mine.mart, _slow_changes(mine), shape))
    return rows


def _last_known(mine: Increment, dead: DataFrame) -> DataFrame:
    """Rows of a soft table for keys whose delete came without values: the table has those, ``dead`` the flags."""
    shape = mine.shape
    return query(
        f"""
        SELECT /*+ BROADCAST(d) */ {columns_of(shape.columns, "t")}, {columns_of(_FLAGS, "d")}
        FROM frazil_target AS t JOIN frazil_dead AS d ON {same(shape.keys, "t", "d")}""",
        frazil_target=mine.target,
        frazil_dead=dead,
    )


def _new_versions(mine: Increment, seen: Seen) -> DataFrame:
    """Versions of all touched keys: the open one and what follows, or for slow keys all of them."""
    shape, new, found = mine.shape, mine.new, mine.found
    if seen.slow:
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
    if seen.slow:
        slow_changes = _slow_changes(mine)
        whole = fill(slow_changes, shape) if shape.fills else slow_changes
        rows = rows.union(whole.selectExpr(*change))
    elif mine.is_few:
        rows = rows.coalesce(1)
    deletes = mine.mart.deletes if isinstance(mine.mart, History) else "close"
    return versions(rows, shape, "mark" if deletes == "mark" else "close")


def _slow_changes(mine: Increment) -> DataFrame:
    return late.of_keys(mine.changes, mine.folded.where(_SLOW), mine.shape.keys)
