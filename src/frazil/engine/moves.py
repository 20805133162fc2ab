"""KEY-CHANGE and MISSING-IS-NOT-NULL: a row keeps under its new key the values that its change does not carry.

A change that gives a row another key may leave out long values that stayed as they were. The new key has no change
before it that could fill them; the old key has. They are filled before silver is written, so that marts, proofs and
readers of silver see a whole change and need not follow a row from key to key.

A row is followed by *stretches*: the changes of one key from one place to another are changes of one row. Changes of
place count, not of sequence: what a row held at the source when its key was changed depends on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.engine.driver_batch import spark_frame
from frazil.marts.fold import fill
from frazil.marts.fold_spec import FoldSpec
from frazil.silver.changes import MOVED, PROBLEM, key_text
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from frazil.engine.table_run import TableRun
    from frazil.silver.contract import Contract

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


@dataclass(frozen=True, slots=True, order=True)
class Move:
    """A change of key that does not carry every column; keys as :func:`frazil.silver.changes.key_text` writes them."""

    place: Place
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """The changes of ``key`` from one place to before another are changes of row ``number``; None: to the end."""

    number: int
    key: str
    start: Place
    end: Place | None


def moves_sql(contract: Contract) -> str:
    """Write the aggregate that collects the moves among change rows; see :func:`moves_of`."""
    keys = f"{MOVED} AS old, {key_text(contract.keys)} AS new"
    return f"collect_list(CASE WHEN {MOVED} IS NOT NULL THEN struct({r.POSITION}, {r.ROW}, {keys}) END)"


def moves_of(collected: Iterable[Mapping[str, Any]]) -> list[Move]:
    """Return the moves that :func:`moves_sql` collected."""
    return [Move(place=(one[r.POSITION], one[r.ROW]), old=one["old"], new=one["new"]) for one in collected]


def stretches(moves: Iterable[Move]) -> list[Stretch]:
    """Follow rows from key to key; no two stretches of a key overlap.

    Cost: a sort of the moves.
    """
    found: list[Stretch] = []
    open_at: dict[str, tuple[int, Place]] = {}
    ended: dict[str, Place] = {}

    def end(key: str, place: Place, number: int) -> int:
        number, start = open_at.pop(key, (number, ended.get(key, _BEGINNING)))
        found.append(Stretch(number, key, start, place))
        ended[key] = place
        return number

    for number, move in enumerate(sorted(moves)):
        of_row = end(move.old, move.place, number)
        if move.new in open_at:
            # The row that had this key before is gone, or got another key by a change that carried everything.
            end(move.new, move.place, number)
        open_at[move.new] = of_row, move.place
    found += [Stretch(number, key, start, None) for key, (number, start) in open_at.items()]
    return found


def fill_moves(
    context: TableRun, contract: Contract, rows: DataFrame, moves: Sequence[Move], *, held: DataFrame | None
) -> DataFrame:
    """Fill what changes of key do not carry with the values in force under the old key.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: from :func:`frazil.silver.changes.change_rows`.
        moves: all moves among them.
        held: changes of silver that stay beside ``rows``; None for none.

    Returns:
        The same rows; those of the moves carry every column. What nobody ever said is NULL.

    Cost: the moves are in the driver's memory, two keys each; one scan of silver and a sort of the changes of their
    keys.
    """
    among = rows.where(f"{PROBLEM} IS NULL AND {r.CLASS} <> '{r.TRUNCATE}'")
    if held is not None:
        among = among.unionByName(held, allowMissingColumns=True)
    followed = [(one.number, one.key, *one.start, *(one.end or (None, None))) for one in stretches(moves)]
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*followed, strict=True), _STRETCHES, strict=True)
    ]
    where = F.broadcast(spark_frame(context.spark, pa.table(columns, schema=_STRETCHES)))
    of_rows = among.join(where, _within(contract)).drop(*_STRETCHES.names[1:])
    spec = FoldSpec(keys=(_OF_ROW,), sequence_by=(), columns=(_OF_ROW, *contract.names), partial=True)
    filled = fill(of_rows, spec).where(f"{MOVED} IS NOT NULL").select(*map(quote, rows.columns))
    return rows.where(f"{MOVED} IS NULL").unionByName(filled)


def _within(contract: Contract) -> Column:
    place = F.struct(r.POSITION, r.ROW)
    start, end = F.struct("from_position", "from_row"), F.struct("to_position", "to_row")
    is_before = F.col("to_position").isNull() | (place < end)
    return (F.expr(key_text(contract.keys)) == F.col("key")) & (place >= start) & is_before
