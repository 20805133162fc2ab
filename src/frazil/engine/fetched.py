"""A small increment in the driver's memory: which rows go, and which come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.engine.increment import (
    AT_FILE,
    AT_POS,
    BARE,
    COMPARED,
    FLAGS,
    KEYS,
    KINDS,
    LATE,
    LIVES,
    STALE,
    VERDICT,
    Seen,
    last_known,
)
from frazil.lake.row_delta import FILE_PATH, LIVING, POS
from frazil.marts import late
from frazil.marts.current import STANDS, states
from frazil.marts.shape import EVENT_TIME
from frazil.spec import History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.engine.increment import Increment

_JOB_GROUP = "spark.jobGroup.id"
_AT = "_cdc_at"


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


def fetch(mine: Increment) -> Fetched | None:
    """Bring all that a batch means to the driver; None where a key is folded anew, which may have any rows.

    Cost: one fold of the batch, for history another of the same changes, for deletes without values a look for
    those; a fold of those keys that may have late changes. What it brings is as large as the batch.
    """
    keys = _keys(mine)
    kinds = keys.group_by([*KINDS]).aggregate([([], "count_all"), (LATE, "sum")])
    seen = Seen.of(kinds.rename_columns([*KINDS, KEYS, LATE]))
    if seen.slow:
        return None
    gone = keys.filter(pc.and_not(keys[late.IN_TARGET], keys[STALE]))
    # Of a key that is not folded anew only the newest version goes.
    places = {FILE_PATH: gone[AT_FILE], POS: gone[AT_POS], LIVING: pa.repeat(True, gone.num_rows)}
    return Fetched(seen=seen, rows=_rows(mine, keys, seen), places=pa.table(places))


def _keys(mine: Increment) -> pa.Table:
    """Bring the folded keys, as rows of the mart where it is no history, with verdicts and places."""
    names, glance = mine.shape.keys, mine.glance()
    fold, begins = (mine.fold(), ()) if glance is None else (glance[0], (late.BEGINS,))
    order = [name for name in (*mine.shape.order_columns, EVENT_TIME) if name not in names]
    if isinstance(mine.mart, History):
        folded = fold.selectExpr(*map(quote, names), *VERDICT, *begins)
    else:
        folded = states(fold, mine.shape, mine.mart.deletes, *VERDICT, *begins)
    spark = mine.target.sparkSession.sparkContext
    group = spark.getLocalProperty(_JOB_GROUP)

    def look(rows: DataFrame) -> pa.Table:
        spark.setLocalProperty(_JOB_GROUP, group or "")  # so that its jobs count as this table's
        return rows.toArrow()

    places = [*names, AT_FILE, AT_POS, *(order if glance and mine.along else ())]
    with ThreadPoolExecutor(3) as beside:
        looked = beside.submit(look, mine.found.select(*map(quote, places)))
        dead = glance and beside.submit(look, glance[1])
        apart = glance and not mine.along and beside.submit(look, mine.newer().select(*map(quote, [*names, *order])))
        keys, found = folded.toArrow(), looked.result()
    at = _match(keys, found, names)
    keys = keys.append_column(late.IN_TARGET, pc.is_valid(at))
    for name in (AT_FILE, AT_POS):
        keys = keys.append_column(name, found[name].take(at))
    return _judged(mine, keys, apart.result() if apart else found, dead.result()) if dead else keys


def _judged(mine: Increment, keys: pa.Table, held: pa.Table, dead: pa.Table) -> pa.Table:
    """Compare the keys that do not begin after what the mart and the tombstones have of them, change by change."""
    names, first, is_sure = mine.shape.keys, mine.shape.order_columns[0], pa.repeat(True, keys.num_rows)
    for rows, end in ((held, held[first]), (dead, pc.struct_field(dead[late.HELD], first))):
        at = _match(keys, rows, names)
        # A column of the mart may have a wider type than the batch's. NULL and NaN are never greater.
        is_after = pc.greater(keys[late.BEGINS].cast(end.type), end.take(at))
        is_sure = pc.and_(is_sure, pc.or_(pc.is_null(at), pc.fill_null(is_after, fill_value=False)))
    doubtful = keys.filter(pc.invert(is_sure)).select([*names])
    if not doubtful.num_rows:
        return keys
    of_doubtful = (table.filter(pc.is_valid(_match(table, doubtful, names))) for table in (doubtful, held, dead))
    some, rows, deletes = (
        # PySpark takes no columns that are not at least one empty piece.
        mine.target.sparkSession.createDataFrame(table if table.num_rows else table.schema.empty_table())
        for table in of_doubtful
    )
    new = late.of_keys(mine.new, some, names)
    compared = late.judged(new, late.held(rows, mine.shape), deletes, mine.shape)
    verdicts = compared.groupBy(*map(quote, names)).agg(*map(F.expr, mine.verdicts(compared=True))).toArrow()
    at = _match(keys, verdicts, names)
    for name in COMPARED:
        column = pc.coalesce(verdicts[name].take(at), keys[name])
        keys = keys.set_column(keys.schema.get_field_index(name), name, column)
    return keys


def _rows(mine: Increment, keys: pa.Table, seen: Seen) -> pa.Table:
    """Bring the rows of a batch without keys that are folded anew."""
    if isinstance(mine.mart, History):
        return mine.rows(seen).toArrow()
    rows = keys.filter(pc.and_not(keys[STANDS], keys[STALE]))
    if mine.mart.deletes == "soft" and seen.bare_deletes:
        bare = pc.and_(pc.and_not(keys[BARE], keys[LIVES]), keys[late.IN_TARGET])
        dead = mine.target.sparkSession.createDataFrame(keys.filter(bare).select([*mine.shape.keys, *FLAGS]))
        known = last_known(mine, dead).toArrow()
        rows = pa.concat_tables([rows.select(known.column_names), known], promote_options="permissive")
    return rows


def _match(keys: pa.Table, others: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """Give the number of the row of ``others`` with the key of each row of ``keys``, NULL where there is none."""
    mine, theirs = (
        rows.select([*names]).append_column(number, pa.array(range(rows.num_rows), pa.int64()))
        for rows, number in ((keys, KEYS), (others, _AT))
    )
    # A key of the mart may have a wider type than the batch's.
    theirs = theirs.cast(pa.schema([*(mine.schema.field(name) for name in names), theirs.schema.field(_AT)]))
    both = theirs.join(mine, keys=[*names], join_type="inner")
    return both[_AT].take(pc.index_in(mine[KEYS], value_set=both[KEYS]))
