"""A small increment in the driver's memory: which rows go, and which come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from frazil.engine.batch_delta import (
    AT_FILE,
    AT_POS,
    COMPARED,
    FLAGS,
    KEYS,
    KINDS,
    LATE,
    RECOMPUTE,
    SUPERSEDED,
    Seen,
    last_known,
)
from frazil.engine.driver_batch import spark_frame
from frazil.lake.row_delta import FILE_PATH, LIVING, POS
from frazil.marts import late
from frazil.marts.arrow_fold import BEGINS, DELETE_ONLY, INCOMPLETE, IS_LIVE, newest_arrow
from frazil.marts.current import STANDS
from frazil.marts.fold_spec import EVENT_TIME
from frazil.spec import Current, History
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.engine.batch_delta import Increment

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
    """Bring all that a batch means to the driver, and fold it there.

    None where that would not tell all: a key is recomputed, which may have any rows, or changes of a key differ in
    nothing but their content.

    Cost: one look at the mart; where changes may be late one at the tombstones, and a fold of those keys that may have
    such changes; for history a fold of all changes, for deletes without values a look for those. What it brings is as
    large as the batch.
    """
    keys = _keys(mine)
    if keys is None:
        return None
    kinds = keys.group_by([*KINDS]).aggregate([([], "count_all"), (LATE, "sum")])
    seen = Seen.of(kinds.rename_columns([*KINDS, KEYS, LATE]))
    if seen.recompute:
        return None
    gone = keys.filter(pc.and_not(keys[late.IN_TARGET], keys[SUPERSEDED]))
    # Of a key that is not recomputed only the newest version goes.
    places = {FILE_PATH: gone[AT_FILE], POS: gone[AT_POS], LIVING: pa.repeat(True, gone.num_rows)}
    return Fetched(seen=seen, rows=_rows(mine, keys, seen), places=pa.table(places))


def _keys(mine: Increment) -> pa.Table | None:
    """Fold the batch's keys, as rows of a current table, with verdicts and places; None where Spark must fold them."""
    names, overlaps = mine.spec.keys, mine.compares and mine.by_order
    # By the order's first column most keys begin after what the mart has of them; the rest of it is looked for then.
    first = [name for name in mine.spec.order_columns[:1] if name not in names]
    wanted = [*names, late.LIVED, AT_FILE, AT_POS, *(first if overlaps and mine.along else ())]
    looks = {"target_rows": mine.target_rows.select(*map(quote, wanted))}
    if overlaps:
        looks["dead"] = mine.tombstones()
        if not mine.along:
            looks["newer"] = mine.newer(mine.touched).select(*map(quote, [*names, *first]))
    spark = mine.target.sparkSession.sparkContext
    group = spark.getLocalProperty(_JOB_GROUP)

    def look(rows: DataFrame) -> pa.Table:
        spark.setLocalProperty(_JOB_GROUP, group or "")  # so that its jobs count as this table's
        return rows.toArrow()

    with ThreadPoolExecutor(len(looks)) as beside:
        looking = {what: beside.submit(look, rows) for what, rows in looks.items()}
        keys = _folded(mine)
    if keys is None:
        return None
    seen = {what: looked.result() for what, looked in looking.items()}
    at = _match(keys, seen["target_rows"], names)
    keys = keys.append_column(late.IN_TARGET, pc.is_valid(at))
    keys = keys.append_column(late.LIVED, pc.fill_null(seen["target_rows"][late.LIVED].take(at), fill_value=False))
    for name in (AT_FILE, AT_POS):
        keys = keys.append_column(name, seen["target_rows"][name].take(at))
    if overlaps:
        return _judged(mine, keys, seen.get("newer", seen["target_rows"]), seen["dead"])
    return _compared(mine, keys, mine.compared_changes()) if mine.compares else keys


def _folded(mine: Increment) -> pa.Table | None:
    """Fold the batch, compared with nothing."""
    keys = newest_arrow(mine.in_memory(), mine.spec)
    if keys is None:
        return None
    stands, dies = keys[IS_LIVE], pc.invert(keys[IS_LIVE])
    if isinstance(mine.mart, Current) and mine.mart.deletes == "soft":
        stands = pc.invert(keys[DELETE_ONLY])
        never = pa.scalar(None, keys.schema.field(EVENT_TIME).type)
        keys = keys.append_column("is_deleted", dies)
        keys = keys.append_column("deleted_at", pc.if_else(dies, keys[EVENT_TIME], never))
    number = keys.num_rows
    return (
        keys.append_column(STANDS, stands)
        .append_column(LATE, pa.repeat(pa.scalar(0, pa.int64()), number))
        .append_column(RECOMPUTE, keys[INCOMPLETE])
        .append_column(SUPERSEDED, pa.repeat(False, number))
    )


def _judged(mine: Increment, keys: pa.Table, held: pa.Table, dead: pa.Table) -> pa.Table:
    """Compare the keys that do not begin after what the mart and the tombstones have of them, change by change."""
    names, first, is_sure = mine.spec.keys, mine.spec.order_columns[0], pa.repeat(True, keys.num_rows)
    for rows, end in ((held, held[first]), (dead, pc.struct_field(dead[late.HELD], first))):
        at = _match(keys, rows, names)
        # A column of the mart may have a wider type than the batch's. NULL and NaN are never greater.
        is_after = pc.greater(keys[BEGINS].cast(end.type), end.take(at))
        is_sure = pc.and_(is_sure, pc.or_(pc.is_null(at), pc.fill_null(is_after, fill_value=False)))
    doubtful = keys.filter(pc.invert(is_sure)).select([*names])
    if not doubtful.num_rows:
        return keys
    some, deletes = (
        spark_frame(mine.target.sparkSession, table.filter(pc.is_valid(_match(table, doubtful, names))))
        for table in (doubtful, dead)
    )
    new, rows = late.filter_keys(mine.new, some, names), late.held_order(mine.newer(some), mine.spec)
    return _compared(mine, keys, late.with_prior_order(new, rows, deletes, mine.spec))


def _compared(mine: Increment, keys: pa.Table, compared_changes: DataFrame) -> pa.Table:
    """Give keys the verdicts that their compared changes come to."""
    names = mine.spec.keys
    verdicts = compared_changes.groupBy(*map(quote, names)).agg(*map(F.expr, mine.verdicts(compared=True))).toArrow()
    at = _match(keys, verdicts, names)
    for name in COMPARED:
        column = pc.coalesce(verdicts[name].take(at), keys[name])
        keys = keys.set_column(keys.schema.get_field_index(name), name, column)
    return keys


def _rows(mine: Increment, keys: pa.Table, seen: Seen) -> pa.Table:
    """Bring the rows of a batch without keys that are recomputed."""
    if isinstance(mine.mart, History):
        return mine.rows(seen).toArrow()
    rows = keys.filter(pc.and_not(keys[STANDS], keys[SUPERSEDED]))
    if mine.mart.deletes == "soft" and seen.deletes_without_values:
        bare = pc.and_(pc.and_not(keys[DELETE_ONLY], keys[IS_LIVE]), keys[late.IN_TARGET])
        dead = spark_frame(mine.target.sparkSession, keys.filter(bare).select([*mine.spec.keys, *FLAGS]))
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
