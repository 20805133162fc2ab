"""KEY-CHANGE and CONVERGE: changes that arrive after a change of key which they come before.

Silver holds a change of key with every column (:mod:`frazil.runner.key_changes.moves`). If a change of the row under
its old key arrives or is corrected later, other values may have been in force. Silver is then rebuilt from bronze.
Silver's bookmark keeps the place of the newest change of key, so batches that are newer cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.marts.fold_spec import same
from frazil.marts.query import query
from frazil.runner.key_changes.moves import place_of_row
from frazil.silver.old_keys import LEFT, MOVED
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.runner.key_changes.moves import Place
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract

_KEPT: Final = "last_move"
NONE: Final[Place] = ("", 0)
"""The place of the newest change of key where there is none."""


def may_lack_columns(context: TableRun, contract: Contract, since: Mapping[str, int]) -> bool:
    """Return whether some changes of key, where there are any, may not carry every column."""
    lists = bool(context.head(context.bronze).bookmark.get("lists", True))
    return lists or bool(since) or contract.ignores_nulls


def in_bookmark(last_move: Place | None) -> dict[str, Any]:
    """Return what silver's bookmark keeps; None where nobody looked for changes of key."""
    return {} if last_move is None else {_KEPT: [*last_move]}


def last_move(context: TableRun) -> Place:
    """Return the place of the newest change of key in silver.

    Cost: where its bookmark does not say it, silver is joined with itself, once.
    """
    base = context.head(context.changes)
    if base.snapshot_id is None:
        return NONE
    if _KEPT in base.bookmark:
        position, row = base.bookmark[_KEPT]
        return (position, row)
    held = context.spark.table(quote(*context.changes))
    place = place_of_row(context.table, "g.")
    found = query(f"SELECT max({place}) AS place {_MOVES}", frazil_held=held).first()
    return NONE if found is None or found["place"] is None else (found["place"][0], found["place"][1])


def come_before_position(context: TableRun, rows: DataFrame, position: str) -> bool:
    """Return whether changes of a batch that silver has not come before a position.

    Cost: a look at the batch; where records that came again say nothing new, the positions of silver too.
    """
    late = rows.where(f"{r.POSITION} <= {literal(position)}")
    if context.table.source.orders_records:
        held = context.spark.table(quote(*context.changes)).select(r.POSITION)
        late = late.join(held, r.POSITION, "left_anti")
    return late.select(r.POSITION).first() is not None


def come_before_moves(
    context: TableRun, contract: Contract, rows: DataFrame, last: Place, *, lacks: bool = True
) -> bool:
    """Return whether changes of a batch come before a change of key in silver that leaves their key.

    Where no change of key lacks columns, only whether another row came to the key between them, or comes with them.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: good change rows of the batch.
        last: from :func:`last_move`.
        lacks: changes of key may lack columns.

    Cost: the deletes of silver against the batch's late changes; what belongs to them is joined with silver.
    """
    table, held = context.table, context.spark.table(quote(*context.changes))
    last_place = f"struct({literal(last[0])} AS {r.POSITION}, CAST({int(last[1])} AS bigint) AS {r.ROW})"
    late = rows.where(f"{place_of_row(table)} < {last_place}")
    if table.source.orders_records:
        # A record that came again says nothing new.
        late = query(
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
        WHERE x.{r.ROW} IS NOT NULL OR l.{MOVED} <> {literal(LEFT)}"""
    found = query(
        f"""SELECT 1 {_MOVES} JOIN frazil_late AS l ON {same(contract.keys, "g", "l")} AND {is_before}
        {"" if lacks else between} LIMIT 1""",
        frazil_late=late,
        frazil_held=held,
    )
    return found.first() is not None


_MOVES: Final = f"""FROM frazil_held AS g JOIN frazil_held AS u
    ON g.{r.CLASS} = {literal(r.DELETE)} AND u.{r.CLASS} = {literal(r.UPSERT)}
    AND g.{r.FILE} = u.{r.FILE} AND g.{r.ROW} = u.{r.ROW} AND g.{r.POSITION} = u.{r.POSITION}"""
"""The deletes ``g`` of old keys, each beside the upsert ``u`` of the same record."""
