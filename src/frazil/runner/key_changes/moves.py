"""KEY-CHANGE and MISSING-IS-NOT-NULL: a row keeps its missing values under its new key.

A change of key may omit unchanged long values. Only the old key has earlier changes that can fill them. They are filled
before silver is written, so that marts, proofs and readers of silver see complete changes and do not follow a row from
key to key.

A row is followed by *stretches*: all changes of one key between two places belong to one row. Stretches use places, not
the sequence, because the values of a row at the source depend only on the order at the source. If records have their
own places, a repeated record has the same place, whatever its number in its files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.marts.fold import fill
from frazil.marts.layout import FoldSpec, same
from frazil.marts.query import query_frames
from frazil.runner.batch.driver_batch import spark_frame
from frazil.runner.key_changes.departures import event_sql, without_moves_deletes
from frazil.silver.changes import PROBLEM
from frazil.silver.old_keys import LACKS, LEFT, MOVED, OWN, key_text
from frazil.sources.kinds import source_of
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import Table

Place = tuple[str, int]
_OF_ROW: Final = "_cdc_of_row"
_BEGINNING: Final[Place] = ("", 0)
_STRETCHES: Final = pa.schema(
    [
        (_OF_ROW, pa.int64()),
        ("key", pa.string()),
        ("from_position", pa.string()),
        ("from_row", pa.int64()),
        ("to_position", pa.string()),
        ("to_row", pa.int64()),
    ]
)
_KEPT: Final = "last_move"
NO_MOVE: Final[Place] = ("", 0)
"""Place of the newest change of key if there are no changes of key."""


@dataclass(frozen=True, slots=True, order=True)
class Move:
    """A change of key that lacks columns; keys are texts of :func:`frazil.silver.changes.key_text`."""

    place: Place
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Half-open range of places in which ``key`` names row ``number``; an end of None means no end."""

    number: int
    key: str
    start: Place
    end: Place | None


def tells_old_keys(table: Table, contract: Contract) -> bool:
    """Return whether the records of a table have the old key of a row."""
    fields = {name.lower(): name for name, _ in contract.fields}
    return bool(source_of(table).meaning(fields, r.POSITION).old_keys)


def place_of_row(table: Table, prefix: str = "") -> str:
    """Return SQL for a change's place, a struct; ``prefix`` is an alias such as ``t.``."""
    row = "0L" if table.source.orders_records else f"{prefix}{r.ROW}"
    return f"struct({prefix}{r.POSITION} AS {r.POSITION}, {row} AS {r.ROW})"


def moves_sql(table: Table, contract: Contract) -> str:
    """Return SQL for the aggregate that collects the moves among change rows; see :func:`moves_of`."""
    event = event_sql(table, contract) or "CAST(NULL AS string)"
    move = f"""struct({place_of_row(table)} AS place, {MOVED} AS old, {key_text(contract.keys)} AS new,
        {event} AS event)"""
    return f"collect_set(CASE WHEN {LACKS} THEN {move} END)"


def moves_of(collected: Iterable[Mapping[str, Any]]) -> list[Move]:
    """Return the moves that :func:`moves_sql` collected; a repeated change counts with its first record."""
    found = [
        (one["event"], Move(place=(one["place"][r.POSITION], one["place"][r.ROW]), old=one["old"], new=one["new"]))
        for one in collected
    ]
    firsts: dict[object, Move] = {}
    for event, move in sorted(found, key=lambda one: one[1]):
        firsts.setdefault(move if event is None else (event, move.old, move.new), move)
    return [*firsts.values()]


def stretches(
    moves: Iterable[Move],
    came: Mapping[tuple[str, Place], Place] | None = None,
    left: Mapping[tuple[str, Place], Place] | None = None,
) -> list[Stretch]:
    """Follow rows from key to key; no two stretches of a key overlap.

    Args:
        moves: all moves.
        came: old key and place of a move whose old key still has a row -> place where that row arrived.
        left: old key and place of a move -> place where its row left the old key, if another.

    Cost: a sort of the moves.
    """
    found: list[Stretch] = []
    open_at: dict[str, tuple[int, Place]] = {}
    ended: dict[str, Place] = {}
    aside: dict[tuple[str, Place], int] = {}

    def end(key: str, place: Place, number: int) -> int:
        number, start = open_at.pop(key, (number, ended.get(key, _BEGINNING)))
        found.append(Stretch(number, key, start, place))
        ended[key] = place
        return number

    for number, move in enumerate(sorted(moves)):
        leaves = (left or {}).get((move.old, move.place), move.place)
        until = (came or {}).get((move.old, leaves))
        if until is not None and (move.old, until) in aside:
            of_row = aside[move.old, until]
        elif until is None or (move.old in open_at and open_at[move.old][1] < until):
            of_row = end(move.old, until or leaves, number)
        else:
            of_row = number
            found.append(Stretch(number, move.old, ended.get(move.old, _BEGINNING), until))
            ended[move.old] = until
        if move.new in open_at:
            # The earlier row of this key is gone, or gets another key at a later place of the same statement.
            aside[move.new, move.place] = end(move.new, move.place, number)
        open_at[move.new] = of_row, move.place
    found += [Stretch(number, key, start, None) for key, (number, start) in open_at.items()]
    return found


def fill_moves(
    context: TableRun,
    contract: Contract,
    rows: DataFrame,
    of_rows: Sequence[Stretch],
    since: Mapping[str, int],
    *,
    held: DataFrame | None,
) -> DataFrame:
    """Fill the missing values of changes of key with the values in force under the old key.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: from :func:`frazil.silver.changes.change_rows`, with truncates expanded to deletes.
        of_rows: from :func:`stretches`, over all moves among ``rows``.
        since: column added after the first batch -> batch that introduced it.
        held: changes that silver keeps beside ``rows``; None without any.

    Returns:
        The same rows; moves have every column. Values that no change has are NULL.

    Cost: the driver's memory holds two keys for each move; one scan of silver and a sort of the changes of these keys.
    """
    among, is_move = rows.where(f"{PROBLEM} IS NULL"), LACKS
    if held is not None:
        among = among.unionByName(held, allowMissingColumns=True)
    followed = [(one.number, one.key, *one.start, *(one.end or (None, None))) for one in of_rows]
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*followed, strict=True), _STRETCHES, strict=True)
    ]
    where = F.broadcast(spark_frame(context.spark, pa.table(columns, schema=_STRETCHES)))
    among = without_moves_deletes(context.table, contract, among, rows.where(is_move))
    joined = among.join(where, _within(context.table, contract)).drop(*_STRETCHES.names[1:])
    spec = FoldSpec(keys=(_OF_ROW,), sequence_by=(), columns=(_OF_ROW, *contract.names), since=since, partial=True)
    filled = fill(joined, spec).where(is_move).select(*map(quote, rows.columns))
    if newest := max(since.values(), default=0):
        # In batches before a column was added, a change without a list of columns lacks it.
        everything = f"array({', '.join(map(literal, contract.names))})"
        filled = filled.withColumn(r.KNOWN, F.expr(f"CASE WHEN {r.BATCH} < {newest} THEN {everything} END"))
    return rows.where(f"NOT coalesce({is_move}, false)").unionByName(filled)


def _within(table: Table, contract: Contract) -> Column:
    place = F.expr(place_of_row(table))
    # Equal names: Spark 3.5 compares only structs with equal names.
    start, end = (
        F.struct(F.col(f"{side}_position").alias(r.POSITION), F.col(f"{side}_row").alias(r.ROW))
        for side in ("from", "to")
    )
    is_before = F.col("to_position").isNull() | (place < end)
    return (F.expr(key_text(contract.keys)) == F.col("key")) & (place >= start) & is_before


def may_lack_columns(context: TableRun, contract: Contract, since: Mapping[str, int]) -> bool:
    """Return whether changes of key may lack columns.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        since: column added after the first batch -> batch that introduced it.
    """
    lists = bool(context.head(context.bronze).bookmark.get("lists", True))
    return lists or bool(since) or contract.ignores_nulls


def last_move_bookmark(last_move: Place | None) -> dict[str, Any]:
    """Return the entry of silver's bookmark; ``last_move`` is None if changes of key were not searched."""
    return {} if last_move is None else {_KEPT: [*last_move]}


def last_move(context: TableRun) -> Place:
    """Return the place of the newest change of key in silver.

    Cost: free if silver's bookmark has it; else one self-join of silver.
    """
    base = context.head(context.changes)
    if base.snapshot_id is None:
        return NO_MOVE
    if _KEPT in base.bookmark:
        position, row = base.bookmark[_KEPT]
        return (position, row)
    held = context.spark.table(quote(*context.changes))
    place = place_of_row(context.table, "g.")
    found = query_frames(f"SELECT max({place}) AS place {_MOVES}", frazil_held=held).first()
    return NO_MOVE if found is None or found["place"] is None else (found["place"][0], found["place"][1])


def come_before_position(context: TableRun, rows: DataFrame, position: str) -> bool:
    """Return whether new changes of a batch come before a position.

    Args:
        context: the table's part of the run.
        rows: change rows of the batch.
        position: the position.

    Cost: a scan of the batch; for sources that repeat records, also of the positions of silver.
    """
    late = rows.where(f"{r.POSITION} <= {literal(position)}")
    if context.table.source.orders_records:
        held = context.spark.table(quote(*context.changes)).select(r.POSITION)
        late = late.join(held, r.POSITION, "left_anti")
    return late.select(r.POSITION).first() is not None


def come_before_moves(
    context: TableRun, contract: Contract, rows: DataFrame, last: Place, *, lacks: bool = True
) -> bool:
    """Return whether changes of a batch precede a change of key in silver that leaves their key.

    If no change of key lacks columns, a change counts only if another row arrived at the key between the two, or
    arrives with it.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: good change rows of the batch.
        last: from :func:`last_move`.
        lacks: changes of key may lack columns.

    Cost: a join of the deletes of silver with the batch's late changes, and of the matches with silver.
    """
    table, held = context.table, context.spark.table(quote(*context.changes))
    last_place = f"struct({literal(last[0])} AS {r.POSITION}, CAST({int(last[1])} AS bigint) AS {r.ROW})"
    late = rows.where(f"{place_of_row(table)} < {last_place}")
    if table.source.orders_records:
        # A repeated record is not a new change.
        late = query_frames(
            f"""SELECT l.* FROM frazil_late AS l LEFT ANTI JOIN frazil_held AS h
            ON h.{r.POSITION} = l.{r.POSITION} AND h.{r.CLASS} = l.{r.CLASS} AND {same(contract.keys, "h", "l")}""",
            frazil_late=late,
            frazil_held=held,
        )
    is_before = f"{place_of_row(table, 'l.')} < {place_of_row(table, 'g.')}"
    came = f"""(SELECT x.* FROM frazil_held AS x JOIN frazil_held AS y
        ON y.{r.CLASS} = {literal(r.DELETE)} AND x.{r.CLASS} = {literal(r.UPSERT)}
        AND x.{r.FILE} = y.{r.FILE} AND x.{r.ROW} = y.{r.ROW} AND x.{r.POSITION} = y.{r.POSITION})"""
    between = f"""LEFT JOIN {came} AS x ON {same(contract.keys, "g", "x")}
        AND {place_of_row(table, "l.")} < {place_of_row(table, "x.")}
        AND {place_of_row(table, "x.")} < {place_of_row(table, "g.")}
        WHERE x.{r.ROW} IS NOT NULL OR l.{MOVED} NOT IN ({literal(LEFT)}, {literal(OWN)})"""
    found = query_frames(
        f"""SELECT 1 {_MOVES} JOIN frazil_late AS l ON {same(contract.keys, "g", "l")} AND {is_before}
        {"" if lacks else between} LIMIT 1""",
        frazil_late=late,
        frazil_held=held,
    )
    return found.first() is not None


_MOVES: Final = f"""FROM frazil_held AS g JOIN frazil_held AS u
    ON g.{r.CLASS} = {literal(r.DELETE)} AND u.{r.CLASS} = {literal(r.UPSERT)}
    AND g.{r.FILE} = u.{r.FILE} AND g.{r.ROW} = u.{r.ROW} AND g.{r.POSITION} = u.{r.POSITION}"""
"""Joins each delete ``g`` of an old key with the upsert ``u`` of the same record."""
