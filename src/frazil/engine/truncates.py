"""TRUNCATE: every key with an older change is deleted at the truncate's order.

Silver keeps no truncate as such: it keeps the deletes that follow from it, so that marts know nothing of truncates and
nobody has to read a table's keys to apply one late. Which truncates there were stands in silver's bookmark: a change
that arrives later and is older than one of them brings the delete of its key with it (CONVERGE).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.engine.brake import place_sql, verify_snapshots
from frazil.engine.moves import fill_moves, moves_of, moves_sql
from frazil.silver.changes import MOVED, PROBLEM, TEXT
from frazil.spec.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from frazil.engine.moves import Move
    from frazil.engine.table_run import TableRun
    from frazil.silver.contract import Contract

_IS_TRUNCATE: Final = f"({r.CLASS} = {literal(r.TRUNCATE)} AND {PROBLEM} IS NULL)"
_IS_CHANGE: Final = f"({r.CLASS} <> {literal(r.TRUNCATE)} AND {PROBLEM} IS NULL)"
_ROWS, _HELD = "frazil_rows", "frazil_held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """One truncate of a table, or of one of its shards.

    Attributes:
        position, row, file, batch: where its record stands.
        values: text of the columns that order changes or say when they happened, and of the shard that it empties;
            NULL where it has none.
    """

    position: str
    row: int
    file: str
    batch: int
    values: Mapping[str, str | None]

    @property
    def place(self) -> tuple[str, int]:
        """Return what orders it among all changes of the table."""
        return (self.position, self.row)

    @property
    def identity(self) -> tuple[str, int, str]:
        """Return what tells it from all others: two shards may have one position."""
        return (self.position, self.row, self.file)


def known_truncates(bookmark: Mapping[str, Any]) -> list[Truncate]:
    """Return the truncates that silver's bookmark tells of."""
    return [Truncate(**one) for one in bookmark.get("truncates", ())]


def in_bookmark(truncates: Iterable[Truncate]) -> dict[str, Any]:
    """Return what silver's bookmark keeps of truncates; nothing where there are none."""
    kept = [asdict(one) for one in truncates]
    return {"truncates": kept} if kept else {}


def spread_truncates(
    context: TableRun, contract: Contract, rows: DataFrame, before: Sequence[Truncate], *, held: DataFrame | None
) -> tuple[DataFrame, list[Truncate]]:
    """Put deletes in the place of truncates, and fill what changes of key do not carry.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: from :func:`frazil.silver.changes.change_rows`, truncates among them.
        before: the truncates of earlier batches; none in a rebuild.
        held: changes of silver that stay beside ``rows``; in a rebuild those of the baseline. None for none.

    Returns:
        The rows without truncates and ``_cdc_moved``, and a delete for every key and truncate where a change of the key
        is older; then all truncates there are.

    Raises:
        TooManyDeletesError: a snapshot would delete more rows than the declaration allows.

    Cost: nothing for sources that know no truncates. For others one Spark job over the batch; with a truncate, or a
    change older than one, another pass over the batch, and with a truncate one over the keys of silver. For moves see
        :func:`frazil.engine.moves.fill_moves`.
    """
    if not context.table.source.truncates:
        return rows.drop(MOVED), []
    shard = context.table.source.shard_column
    carried = _carried(contract, shard)
    found, least, moves = _seen(rows, carried, contract)
    if moves:
        rows = fill_moves(context, contract, rows, moves, held=held)
    rows = rows.drop(MOVED)
    every = [*before, *found]
    if not found and (least is None or all(one.place < least for one in before)):
        return rows, every
    rows.createOrReplaceTempView(_ROWS)
    keys = ", ".join(map(quote, contract.keys))
    has = f"{keys}, {_PLACE}, {r.BATCH}, {r.CLASS}"
    older = f"SELECT {has}, false AS _held FROM {_ROWS} WHERE {_IS_CHANGE}"
    if found and held is not None:
        held.createOrReplaceTempView(_HELD)
        older += f" UNION ALL SELECT {has}, true FROM {_HELD}"
    allowed = {one.identity for one in known_truncates(context.head(context.changes).bookmark)}
    new_places = [one.place for one in found if one.identity not in allowed]
    verify_snapshots(context, contract, new_places, [one.place for one in every], older)
    new = {one.identity for one in found}
    truncates = " UNION ALL ".join(_as_row(one, carried, is_new=one.identity in new) for one in every)
    kept = f"SELECT * FROM {_ROWS} WHERE NOT coalesce({_IS_TRUNCATE}, false)"
    problem = rows.schema[PROBLEM].dataType.simpleString()
    deletes = _deletes(contract, (carried, shard), older, truncates, problem)
    return context.spark.sql(f"{kept} UNION ALL {deletes}"), every


def _deletes(
    contract: Contract, has: tuple[Mapping[str, str], str | None], older: str, truncates: str, problem: str
) -> str:
    """Write the SELECT of one delete for every key and truncate where a change of the key is older.

    ``has`` says what a truncate has values of: which columns, and the one with the name of the shard among them.
    """
    carried, shard = has
    columns = ", ".join(_column(column.name, column.type, contract.keys, carried) for column in contract.columns)
    of_key = ", ".join(quote("_k", key) for key in contract.keys)
    of_shard = "true" if shard is None else f"{quote('_k', shard)} = {quote('_t', shard)}"
    of_truncate = ", ".join(quote("_t", name) for name in (r.POSITION, r.ROW, r.FILE, r.BATCH, *carried))
    return f"""SELECT {columns}, {literal(r.DELETE)} AS {r.CLASS}, _t.{r.POSITION}, _t.{r.ROW}, _t.{r.FILE},
            greatest(_t.{r.BATCH}, min(_k.{r.BATCH})) AS {r.BATCH},
            CAST(NULL AS array<string>) AS {r.KNOWN}, CAST(NULL AS {problem}) AS {PROBLEM},
            CAST(NULL AS string) AS {TEXT}
        FROM ({older}) AS _k JOIN ({truncates}) AS _t
        ON (_k._place < _t._place AND (_t._new OR NOT _k._held) AND {of_shard})
        GROUP BY {of_key}, {of_truncate}"""


_PLACE: Final = f"struct({r.POSITION}, {r.ROW}) AS _place"


def _carried(contract: Contract, shard: str | None) -> dict[str, str]:
    """Return the columns that a truncate has values of, with their types."""
    types = {column.name: column.type for column in contract.columns}
    times = (contract.event_time,) if contract.event_time in types else ()
    return {name: types[name] for name in dict.fromkeys((*contract.sequence_by, *times, shard)) if name is not None}


def _seen(
    rows: DataFrame, carried: Mapping[str, str], contract: Contract
) -> tuple[list[Truncate], tuple[str, int] | None, list[Move]]:
    """Return the truncates among the rows, the place of the first change, and the moves."""
    moves = moves_sql(contract) if MOVED in rows.columns else "array()"
    values = ", ".join(f"CAST({quote(name)} AS string) AS {quote(name)}" for name in carried)
    held = f"struct({r.POSITION}, {r.ROW}, {r.FILE}, {r.BATCH}, struct({values or 'true AS _none'}) AS _values)"
    seen = rows.selectExpr(
        f"collect_list(CASE WHEN {_IS_TRUNCATE} THEN {held} END) AS found",
        f"min(CASE WHEN {_IS_CHANGE} THEN struct({r.POSITION}, {r.ROW}) END) AS least",
        f"{moves} AS moves",
    ).first()
    if seen is None:
        return [], None, []
    found = [
        Truncate(
            position=one[r.POSITION],
            row=one[r.ROW],
            file=one[r.FILE],
            batch=one[r.BATCH],
            values={name: one["_values"][name] for name in carried},
        )
        for one in seen["found"]
    ]
    least = None if seen["least"] is None else (seen["least"][0], seen["least"][1])
    return found, least, moves_of(seen["moves"])


def _as_row(one: Truncate, carried: Mapping[str, str], *, is_new: bool) -> str:
    values = ""
    for name, kind in carried.items():
        text = one.values.get(name)
        values += f", CAST({'NULL' if text is None else literal(text)} AS {kind}) AS {quote(name)}"
    return (
        f"SELECT {literal(one.position)} AS {r.POSITION}, CAST({int(one.row)} AS bigint) AS {r.ROW}, "
        f"{literal(one.file)} AS {r.FILE}, CAST({int(one.batch)} AS bigint) AS {r.BATCH}, "
        f"{place_sql(*one.place)} AS _place, "
        f"{'true' if is_new else 'false'} AS _new{values}"
    )


def _column(name: str, kind: str, keys: Sequence[str], carried: Mapping[str, str]) -> str:
    if name in keys:
        return quote("_k", name)
    return quote("_t", name) if name in carried else f"CAST(NULL AS {kind}) AS {quote(name)}"
