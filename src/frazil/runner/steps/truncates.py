"""TRUNCATE: every key with an older change is deleted at the truncate's order.

A change is older if it comes before the truncate in order, which is how marts fold, or in the source, which is how
:mod:`frazil.runner.key_changes.moves` follows rows. The two differ if ``sequence_by`` runs against the source. A delete
that only the place asks for is older than all changes of its key, and changes nothing in a mart.

Silver keeps no truncate as such: it keeps the deletes that follow from it, so that marts know nothing of truncates and
nobody has to read a table's keys to apply one late. Which truncates there were stands in silver's bookmark: a change
that arrives later and is older than one of them brings the delete of its key with it (CONVERGE).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.runner.key_changes import departures
from frazil.runner.key_changes.moves import (
    NO_MOVE,
    come_before_moves,
    come_before_position,
    fill_moves,
    last_move,
    last_move_bookmark,
    may_lack_columns,
    moves_of,
    moves_sql,
    place_of_row,
    stretches,
)
from frazil.runner.limits.brake import place_sql, verify_snapshots
from frazil.silver.changes import PROBLEM, TEXT
from frazil.silver.old_keys import LEFT, MOVED
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.key_changes.moves import KeyChange, Place
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import Table

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
        source_time: text of the source's own time of it; None for none.
    """

    position: str
    row: int
    file: str
    batch: int
    values: Mapping[str, str | None]
    source_time: str | None = None

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


def truncate_bookmark(truncates: Iterable[Truncate]) -> dict[str, Any]:
    """Return what silver's bookmark keeps of truncates; nothing where there are none."""
    kept = [asdict(one) for one in truncates]
    return {"truncates": kept} if kept else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What silver holds that stays beside new change rows.

    Attributes:
        rows: its changes; in a rebuild those of its baseline. None for none.
        truncates: those of earlier batches; none in a rebuild.
        is_rebuild: the new rows are all that bronze has.
    """

    rows: DataFrame | None
    truncates: Sequence[Truncate] = ()
    is_rebuild: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Change rows as silver takes them.

    Attributes:
        rows: without truncates and ``_cdc_moved``, with a delete for every key and truncate where a change of the key
            is older.
        truncates: all there are.
        last_move: place of the newest change of key; None where nobody looked.
        departed: the greatest position of a void delete; empty for none.
        is_late: some come before a change of key that silver holds already, so silver must be made from bronze again.
    """

    rows: DataFrame
    truncates: list[Truncate] = field(default_factory=list)
    last_move: Place | None = None
    departed: str = ""
    is_late: bool = False

    def in_bookmark(self) -> dict[str, Any]:
        """Return what silver's bookmark keeps."""
        departed = {departures.DEPARTED: self.departed} if self.departed else {}
        return truncate_bookmark(self.truncates) | last_move_bookmark(self.last_move) | departed


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one pass over change rows finds.

    Attributes:
        truncates: all among them.
        moves: those that lack columns.
        last_move: the newest.
        least_of_move: place of the first change, as moves are ordered; None for none.
        is_older: some change is older than a truncate of an earlier batch.
    """

    truncates: Sequence[Truncate] = ()
    moves: Sequence[KeyChange] = ()
    last_move: Place = NO_MOVE
    least_of_move: Place | None = None
    is_older: bool = False


def spread_truncates(
    context: TableRun, contract: Contract, rows: DataFrame, since: Mapping[str, int], beside: Beside
) -> Spread:
    """Put deletes in the place of truncates, and fill what changes of key do not carry.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: from :func:`frazil.silver.changes.change_rows`, truncates among them.
        since: column that came later than the table -> batch that it came with.
        beside: what silver holds that stays.

    Raises:
        TooManyDeletesError: a snapshot would delete more rows than the declaration allows.

    Cost: nothing for sources that know neither truncates nor old keys. For others one Spark job over the batch; with a
        truncate, or a change older than one, another pass over the batch, and with a truncate one over the keys of
        silver. For changes of key see the modules of :mod:`frazil.runner.key_changes`.
    """
    follows = MOVED in rows.columns
    if not context.table.source.truncates and not follows:
        return Spread(rows=rows.drop(MOVED))
    seen = _seen(context.table, rows, contract, beside.truncates)
    spread = Spread(rows=rows, truncates=[*beside.truncates, *seen.truncates])
    if follows:
        base = {} if beside.is_rebuild else context.head(context.changes).bookmark
        held = NO_MOVE if beside.is_rebuild else last_move(context)
        departed = base.get(departures.DEPARTED, "")
        spread = replace(spread, last_move=max(held, seen.last_move), departed=departed)
        lacks = may_lack_columns(context, contract, since)
        if _is_late(context, contract, rows, seen, (held, departed, lacks)):
            return replace(spread, is_late=True)
    if seen.truncates or seen.is_older:
        rows = _with_deletes(context, contract, rows, seen.truncates, beside)
    if seen.last_move != NO_MOVE:
        rows, spread = _followed(context, contract, replace(spread, rows=rows), (seen.moves, since, beside.rows))
    return replace(spread, rows=rows.drop(MOVED))


def _followed(
    context: TableRun,
    contract: Contract,
    spread: Spread,
    of: tuple[Sequence[KeyChange], Mapping[str, int], DataFrame | None],
) -> tuple[DataFrame, Spread]:
    """Leave out the deletes that are void, and fill what changes of key do not carry."""
    moves, since, held = of
    void = departures.void_departures(context, contract, spread.rows, held)
    if departures.holds_departures(context, contract, held, void):
        return spread.rows, replace(spread, is_late=True)
    rows = departures.without_departures(context, contract, spread.rows, void)
    one_by_one = void.to_pylist()
    if moves:
        came = {
            (one[departures.KEY], (one[r.POSITION], one[r.ROW])): (
                one[departures.CAME_POSITION],
                one[departures.CAME_ROW],
            )
            for one in one_by_one
        }
        rows = fill_moves(context, contract, rows, stretches(moves, came), since, held=held)
    departed = max([spread.departed, *(one[r.POSITION] for one in one_by_one)])
    return rows, replace(spread, departed=departed)


def _is_late(
    context: TableRun, contract: Contract, rows: DataFrame, seen: _Seen, known: tuple[Place, str, bool]
) -> bool:
    """Return whether silver must be made from bronze again.

    ``known`` are the last change of key, the last void delete, and whether changes of key may lack columns.
    """
    held, departed, lacks = known
    places = [one.place for one in seen.truncates]
    if any(place < held for place in places):
        return True
    if seen.least_of_move is None or seen.least_of_move >= held:
        return False
    changes = rows.where(_IS_CHANGE)
    if departed and come_before_position(context, changes, departed):
        return True
    return come_before_moves(context, contract, changes, held, lacks=lacks)


def _with_deletes(
    context: TableRun, contract: Contract, rows: DataFrame, found: Sequence[Truncate], beside: Beside
) -> DataFrame:
    """Return the rows with the deletes in the place of truncates."""
    shard = context.table.source.shard_column
    carried = _carried(contract, shard)
    every = [*beside.truncates, *found]
    rows.createOrReplaceTempView(_ROWS)
    keys = ", ".join(map(quote, contract.keys))
    columns = f"{keys}, {_PLACE}, {_order(contract)} AS _order, {r.BATCH}, {r.CLASS}"
    older = f"SELECT {columns}, false AS _held FROM {_ROWS} WHERE {_IS_CHANGE}"
    if found and beside.rows is not None:
        beside.rows.createOrReplaceTempView(_HELD)
        older += f" UNION ALL SELECT {columns}, true FROM {_HELD}"
    allowed = {one.identity for one in known_truncates(context.head(context.changes).bookmark)}
    new_places = [one.place for one in found if one.identity not in allowed]
    verify_snapshots(context, contract, new_places, [one.place for one in every], older)
    new = {one.identity for one in found}
    made = " UNION ALL ".join(_as_row(one, carried, is_new=one.identity in new) for one in every)
    truncates = f"SELECT *, {_PLACE}, {_order(contract)} AS _order FROM ({made})"
    kept = f"SELECT * FROM {_ROWS} WHERE NOT coalesce({_IS_TRUNCATE}, false)"
    deletes = _deletes(contract, (carried, shard), older, truncates, rows.schema[PROBLEM].dataType.simpleString())
    moved = f", CAST(NULL AS string) AS {MOVED}" if MOVED in rows.columns else ""
    return context.spark.sql(f"{kept} UNION ALL SELECT *{moved} FROM ({deletes})")


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
    of_truncate = ", ".join(quote("_t", name) for name in (r.POSITION, r.ROW, r.FILE, r.BATCH, r.SOURCE_TIME, *carried))
    return f"""SELECT {columns}, {literal(r.DELETE)} AS {r.CLASS}, _t.{r.POSITION}, _t.{r.ROW}, _t.{r.FILE},
            greatest(_t.{r.BATCH}, min(_k.{r.BATCH})) AS {r.BATCH},
            CAST(NULL AS array<string>) AS {r.KNOWN}, _t.{r.SOURCE_TIME}, CAST(NULL AS {problem}) AS {PROBLEM},
            CAST(NULL AS string) AS {TEXT}
        FROM ({older}) AS _k JOIN ({truncates}) AS _t
        ON ((_k._place < _t._place OR _k._order < _t._order) AND (_t._new OR NOT _k._held) AND {of_shard})
        GROUP BY {of_key}, {of_truncate}"""


_PLACE: Final = f"struct({r.POSITION}, {r.ROW}) AS _place"


def _order(contract: Contract) -> str:
    """Write what orders changes and truncates of all keys: the sequence first, which neither lacks."""
    return f"struct({', '.join(map(quote, (*contract.sequence_by, r.POSITION, r.ROW)))})"


def _carried(contract: Contract, shard: str | None) -> dict[str, str]:
    """Return the columns that a truncate has values of, with their types."""
    types = {column.name: column.type for column in contract.columns}
    times = (contract.event_time,) if contract.event_time in types else ()
    return {name: types[name] for name in dict.fromkeys((*contract.sequence_by, *times, shard)) if name is not None}


def _seen(table: Table, rows: DataFrame, contract: Contract, known: Sequence[Truncate]) -> _Seen:
    """Look at all rows once; ``known`` are the truncates of earlier batches."""
    carried = _carried(contract, table.source.shard_column)
    has_moves = MOVED in rows.columns
    values = ", ".join(f"CAST({quote(name)} AS string) AS {quote(name)}" for name in carried)
    time = f"CAST({r.SOURCE_TIME} AS string) AS _time"
    held = f"struct({r.POSITION}, {r.ROW}, {r.FILE}, {r.BATCH}, {time}, struct({values or 'true AS _none'}) AS _values)"
    place = place_of_row(table)
    is_left = f"{MOVED} = {literal(LEFT)}" if has_moves else "false"
    seen = rows.selectExpr(
        f"collect_list(CASE WHEN {_IS_TRUNCATE} THEN {held} END) AS found",
        f"coalesce(bool_or({_IS_CHANGE} AND ({_before_some(contract, known)})), false) AS is_older",
        f"min(CASE WHEN {_IS_CHANGE} THEN {place} END) AS least_of_move",
        f"max(CASE WHEN {is_left} THEN {place} END) AS last_move",
        f"{moves_sql(table, contract) if has_moves else 'array()'} AS moves",
    ).first()
    if seen is None:
        return _Seen()
    found = [
        Truncate(
            position=one[r.POSITION],
            row=one[r.ROW],
            file=one[r.FILE],
            batch=one[r.BATCH],
            values={name: one["_values"][name] for name in carried},
            source_time=one["_time"],
        )
        for one in seen["found"]
    ]

    def at(name: str) -> Place | None:
        return None if seen[name] is None else (seen[name][0], seen[name][1])

    return _Seen(
        truncates=found,
        moves=moves_of(seen["moves"]),
        last_move=at("last_move") or NO_MOVE,
        least_of_move=at("least_of_move"),
        is_older=seen["is_older"],
    )


def _before_some(contract: Contract, known: Sequence[Truncate]) -> str:
    """Write the condition that a change is older than one of some truncates."""
    if not known:
        return "false"
    is_older = f"struct({r.POSITION}, {r.ROW}) < {place_sql(*max(one.place for one in known))}"
    if not contract.sequence_by:
        return is_older
    types = {column.name: column.type for column in contract.columns}
    orders = []
    for one in known:
        values = [f"{_typed(one.values.get(name), types[name])} AS {quote(name)}" for name in contract.sequence_by]
        row = f"CAST({int(one.row)} AS bigint) AS {r.ROW}"
        orders.append(f"struct({', '.join(values)}, {literal(one.position)} AS {r.POSITION}, {row})")
    return f"{is_older} OR {_order(contract)} < array_max(array({', '.join(orders)}))"


def _as_row(one: Truncate, carried: Mapping[str, str], *, is_new: bool) -> str:
    values = "".join(f", {_typed(one.values.get(name), kind)} AS {quote(name)}" for name, kind in carried.items())
    return (
        f"SELECT {literal(one.position)} AS {r.POSITION}, CAST({int(one.row)} AS bigint) AS {r.ROW}, "
        f"{literal(one.file)} AS {r.FILE}, CAST({int(one.batch)} AS bigint) AS {r.BATCH}, "
        f"{_typed(one.source_time, 'timestamp')} AS {r.SOURCE_TIME}, {'true' if is_new else 'false'} AS _new{values}"
    )


def _typed(text: str | None, kind: str) -> str:
    return f"CAST({'NULL' if text is None else literal(text)} AS {kind})"


def _column(name: str, kind: str, keys: Sequence[str], carried: Mapping[str, str]) -> str:
    if name in keys:
        return quote("_k", name)
    return quote("_t", name) if name in carried else f"CAST(NULL AS {kind}) AS {quote(name)}"
