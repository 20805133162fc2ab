"""What a batch means for a mart that has rows: which of them it replaces, and by what.

Keys with late or incomplete changes are folded anew from all their changes; all others from the batch and the rows
the mart has of them, which are looked for once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.engine.size import new_changes
from frazil.errors import FrazilError
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
    from pyspark.sql import DataFrame

    from frazil.engine.context import Context
    from frazil.engine.size import Size
    from frazil.marts.shape import Shape
    from frazil.steps import UpdateMart

FEW_CHANGES = 500_000
"""Batches of up to this many changes are folded in one task: what one task holds is not shuffled."""

AT_FILE, AT_POS = "_cdc_at_file", "_cdc_at_pos"
"""Where a row of the mart stands: its file, and its number in it."""

_SLOW, _STALE, _LATE, _COMES = "_cdc_slow", "_cdc_stale", "_cdc_late", "_cdc_comes"
_FLAGS: Final = ("is_deleted", "deleted_at", r.POSITION, r.ROW)
_UPSERTS: Final = f"{NEWEST}.{r.CLASS} = '{r.UPSERT}'"
_REPLACED: Final = f"({_SLOW} OR ({late.IN_TARGET} AND NOT {_STALE}))"

_VERDICTS: Final = {
    "late": _LATE,
    "slow": f"CAST({_SLOW} AS int)",
    "replaced": f"CAST({_REPLACED} AS int)",
    "inserted": f"CAST(NOT {_STALE} AND {_UPSERTS} AND NOT {late.IN_TARGET} AS int)",
    "updated": f"CAST(NOT {_STALE} AND {_UPSERTS} AND {late.IN_TARGET} AS int)",
    "deleted": f"CAST(NOT {_STALE} AND NOT {_UPSERTS} AND {late.IN_TARGET} AS int)",
    "bare_deletes": f"CAST(NOT {_UPSERTS} AND {VALUES} IS NULL AND {late.IN_TARGET} AND NOT {_SLOW} AS int)",
}
"""Numbers of a folded key, as SQL; added up they are a :class:`Seen`."""
_COUNTED: Final = {name: f"_cdc_{name}_keys" for name in _VERDICTS}


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
        folded: one row per key of the batch, with the verdicts on it; computed anew whenever it is read.
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
    is_few: bool

    def kept(self, context: Context) -> Self:
        """The same, with ``folded`` computed once, however often it is read."""
        return replace(self, folded=context.keep((self.name, "folded"), lambda: self.folded))

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
        row = self.folded.selectExpr(*(f"coalesce(sum({sql}), 0) AS {name}" for name, sql in _VERDICTS.items())).first()
        if row is None:
            raise FrazilError("no counts of a batch's keys")
        return Seen(**{name: int(number) for name, number in row.asDict().items()})

    def fetched(self) -> Fetched | None:
        """Bring all that the batch means to the driver; None where a key is folded anew, which may have any rows.

        Cost: one fold of the batch, for history another of the same changes, for deletes without values a look for
        those; what it brings is as large as the batch.
        """
        also = [f"{sql} AS {_COUNTED[name]}" for name, sql in _VERDICTS.items()]
        also += [AT_FILE, AT_POS]
        is_soft = False
        if isinstance(self.mart, History):
            keys = self.folded.selectExpr(*also).toArrow()
        else:
            is_soft = self.mart.deletes == "soft"
            also.append(f"{STANDS} AND NOT {_STALE} AS {_COMES}")
            keys = states(self.folded, self.shape, self.mart.deletes, *also).toArrow()
        seen = Seen(**{name: pc.sum(keys[column]).as_py() or 0 for name, column in _COUNTED.items()})
        if seen.slow:
            return None
        rows = self.rows(seen).toArrow() if isinstance(self.mart, History) else keys.filter(keys[_COMES])
        if is_soft and seen.bare_deletes:
            dead = keys.filter(pc.equal(keys[_COUNTED["bare_deletes"]], 1)).select([*self.shape.keys, *_FLAGS])
            known = _last_known(self, self.target.sparkSession.createDataFrame(dead)).toArrow()
            rows = pa.concat_tables([rows.select(known.column_names), known], promote_options="permissive")
        gone = keys.filter(pc.equal(keys[_COUNTED["replaced"]], 1))
        # Of a key that is not folded anew only the newest version goes.
        places = {FILE_PATH: gone[AT_FILE], POS: gone[AT_POS], LIVING: pa.repeat(True, gone.num_rows)}
        return Fetched(seen=seen, rows=rows, places=pa.table(places))


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

    Cost: nothing yet; once it is read, one scan of the mart for the batch's keys, one of newer tombstones, one fold.
    """
    new, is_few = new_changes(context, step, changes, shape), size.changes <= FEW_CHANGES
    if is_few:
        new = new.coalesce(1)
    touched = new.select(*map(quote, shape.keys))
    is_history = isinstance(mart, History)
    also = [AT_FILE, AT_POS]
    if is_history:  # the rows themselves are needed again
        also += [quote(name) for name in shape.columns if name not in shape.keys]
        also += ["valid_from", "is_deleted", r.POSITION, r.ROW]
    heads = target.where(f"is_current AND {size.near}" if is_history else size.near)
    # Where each change is newer than all before, none is late. History asks for event times, which may differ.
    in_time = size.follows and (shape.times_follow_order or not is_history)
    found = late.applied(heads, touched, shape, *also, ordered=not in_time)
    if is_history:
        found = context.keep((step.mart, "found", step.upto), lambda: found)
    if in_time:
        judged = late.in_time(new, found, shape, AT_FILE, AT_POS)
    else:
        every = is_history and not shape.times_follow_order
        deletes = other_batches(changes, step.after, step.upto).where(f"{r.CLASS} = '{r.DELETE}'")
        if shape.sequence_by and not every:
            # Only tombstones as new as the batch's oldest change matter; others are pruned by their files' statistics.
            deletes = deletes.where(f"{quote(shape.sequence_by[0])} >= {size.oldest}")
        dead = late.tombstones(deletes, touched, shape)
        if len(context.table.marts) > 1:
            dead = context.keep(("tombstones", every, step.upto), lambda: dead)
        judged = late.judged(new, found, dead, shape, AT_FILE, AT_POS)
    return Increment(
        name=step.mart,
        mart=mart,
        shape=shape,
        changes=changes,
        target=target,
        new=new,
        found=found,
        folded=newest(judged, shape, *_judge(mart, shape, in_time=in_time)),
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
        f"bool_or({late.IN_TARGET}) AS {late.IN_TARGET}",
        f"{slow} AS {_SLOW}",
        f"{stale} AS {_STALE}",
        f"any_value({AT_FILE}) AS {AT_FILE}",
        f"any_value({AT_POS}) AS {AT_POS}",
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
