"""TRUNCATE: every key with an older change is deleted at the truncate's order.

A change is older if it precedes the truncate in order, by which marts fold, or in the source, by which
:mod:`frazil.runner.key_changes.moves` follows rows. The two differ if ``sequence_by`` contradicts the source. A delete
that only the place requires is older than all changes of its key, and does not affect a mart.

Silver stores the resulting deletes and not the truncate. Marts therefore need no support for truncates, and a late
truncate needs no read of a table's keys. Silver's bookmark lists the truncates: a later change that is older than one
of them adds the delete of its key (CONVERGE).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from frazil.bronze import record as r
from frazil.runner.batch.batch_stats import Newest, number_of
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
from frazil.runner.limits.batch_limits import place_sql, verify_snapshots
from frazil.runner.steps.snapshots import SourceSnapshot, find_snapshots, may_void_deletes, with_missing_deleted
from frazil.silver.changes import PROBLEM, TEXT
from frazil.silver.old_keys import AWAY, LEAVES, MOVED
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.key_changes.moves import Move, Place
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import Table

_IS_TRUNCATE: Final = f"({r.CLASS} = {literal(r.TRUNCATE)} AND {PROBLEM} IS NULL)"
_IS_CHANGE: Final = f"({r.CLASS} <> {literal(r.TRUNCATE)} AND {PROBLEM} IS NULL)"
_SAYS_WHERE: Final = f"({r.CLASS} <> {literal(r.TRUNCATE)})"
"""Changes, and what is in quarantine: it says where rows were, though not what they held."""
_MANY: Final = 300
"""More kept truncates than these are warned of: they are some 75 kB of every snapshot."""
_ROWS, _HELD = "frazil_rows", "frazil_held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """One truncate of a table, or of one of its shards.

    Attributes:
        position, row, file, batch: place of its record.
        values: text of the columns of order, time and shard; NULL if the truncate has no value.
        source_time: text of the source's own time; None without one.
    """

    position: str
    row: int
    file: str
    batch: int
    values: Mapping[str, str | None]
    source_time: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        """Return its place among all changes of the table."""
        return (self.position, self.row)

    @property
    def identity(self) -> tuple[str, int, str]:
        """Return its identity: two shards may have truncates at the same position."""
        return (self.position, self.row, self.file)


def known_truncates(bookmark: Mapping[str, Any]) -> list[Truncate]:
    """Return the truncates in silver's bookmark."""
    return [Truncate(**one) for one in bookmark.get("truncates", ())]


def truncate_bookmark(truncates: Iterable[Truncate]) -> dict[str, Any]:
    """Return the entry of silver's bookmark for truncates; empty without any."""
    kept = [asdict(one) for one in truncates]
    return {"truncates": kept} if kept else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The place and order that changes come after if they are newer than all of some truncates.

    Attributes:
        position: the greatest of the truncates.
        newest: the greatest of what comes first in their order; empty where none of them has it.
    """

    position: str
    newest: Newest

    @classmethod
    def of(cls, truncates: Sequence[Truncate], contract: Contract) -> Self | None:
        """Return the horizon of some truncates; None without truncates.

        Raises:
            ValueError: numbers cannot express their order.
        """
        if not truncates:
            return None
        position = max(one.position for one in truncates)
        if not contract.sequence_by:
            return cls(position=position, newest=Newest(order=position))
        first = contract.sequence_by[0]
        kind = next(column.type for column in contract.columns if column.name == first)
        texts = [text for one in truncates if (text := one.values.get(first)) is not None]
        return cls(position=position, newest=Newest(order=max((number_of(text, kind) for text in texts), default=None)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The records that new change rows are made of, and existing contents of silver that stay beside them.

    Attributes:
        records: records of bronze.
        rows: changes of silver; in a rebuild only the changes of its baseline. None without any.
        truncates: truncates of earlier batches; empty in a rebuild.
        is_rebuild: the new rows are all rows of bronze.
        snapshot: newest finished snapshot of earlier batches; None in a rebuild.
    """

    records: DataFrame
    rows: DataFrame | None
    truncates: Sequence[Truncate] = ()
    is_rebuild: bool = False
    snapshot: SourceSnapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Change rows with truncates expanded to deletes.

    Attributes:
        rows: change rows without truncates and ``_cdc_moved``. They have a delete for every pair of key and truncate
            with an older change of the key.
        truncates: all truncates.
        last_move: place of the newest change of key; None if changes of key were not searched.
        departed: greatest position of a void delete; empty without one.
        is_late: some rows precede a change of key or a snapshot in silver, so silver must be rebuilt from bronze.
        snapshot: newest finished snapshot; None without one.
    """

    rows: DataFrame
    truncates: list[Truncate] = field(default_factory=list)
    last_move: Place | None = None
    departed: str = ""
    is_late: bool = False
    snapshot: SourceSnapshot | None = None

    def in_bookmark(self) -> dict[str, Any]:
        """Return the entries of silver's bookmark."""
        departed = {departures.DEPARTED: self.departed} if self.departed else {}
        snapshot = {} if self.snapshot is None else self.snapshot.in_bookmark()
        return truncate_bookmark(self.truncates) | last_move_bookmark(self.last_move) | departed | snapshot


@dataclass(frozen=True, slots=True)
class _Seen:
    """Results of one pass over change rows.

    Attributes:
        truncates: all truncates among them.
        moves: changes of key that lack columns.
        last_move: place of the newest change of key.
        least_of_move: least place of a change, in the order of moves; None without changes.
        is_older: a change is older than a truncate of an earlier batch.
        least_position: least position of a record; empty without records.
    """

    truncates: Sequence[Truncate] = ()
    moves: Sequence[Move] = ()
    last_move: Place = NO_MOVE
    least_of_move: Place | None = None
    is_older: bool = False
    least_position: str = ""


def spread_truncates(
    context: TableRun, contract: Contract, rows: DataFrame, since: Mapping[str, int], beside: Beside
) -> Spread:
    """Expand truncates and missing rows of snapshots to deletes, and fill the missing values of changes of key.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        rows: from :func:`frazil.silver.changes.change_rows`, including truncates.
        since: column added after the first batch -> batch that introduced it.
        beside: existing contents of silver that stay.

    Raises:
        TooManyDeletesError: a snapshot would delete more rows than the declaration allows.
        LostDeletesError: a snapshot lacks rows, and the declaration does not say whether they were deleted.

    Cost: free for sources without truncates and old keys. For others one Spark job over the batch. A truncate, or a
        change older than one, adds a pass over the batch, and a truncate also a pass over the keys of silver. For
        changes of key see the modules of :mod:`frazil.runner.key_changes`.
    """
    follows = MOVED in rows.columns
    if not context.table.source.truncates and not follows:
        return Spread(rows=rows.drop(MOVED))
    seen = _seen(context.table, rows, contract, beside.truncates)
    spread = Spread(rows=rows, truncates=[*beside.truncates, *seen.truncates], snapshot=beside.snapshot)
    if beside.snapshot is not None and may_void_deletes(
        context, contract, beside.records, seen.least_position, beside.snapshot
    ):
        return replace(spread, is_late=True)
    if found := find_snapshots(context, contract, beside.records, beside.snapshot):
        spread = replace(spread, snapshot=found[-1])
    if follows:
        base = {} if beside.is_rebuild else context.head(context.changes).bookmark
        held = NO_MOVE if beside.is_rebuild else last_move(context)
        departed = base.get(departures.DEPARTED, "")
        spread = replace(spread, last_move=max(held, seen.last_move), departed=departed)
        lacks = may_lack_columns(context, contract, since)
        is_behind = any((one.position, 0) < held for one in found)
        if is_behind or _is_late(context, contract, rows, seen, (held, departed, lacks)):
            return replace(spread, is_late=True)
    if seen.truncates and len(spread.truncates) > _MANY and context.table.retention is None:
        context.report.warnings.append(
            f"{len(spread.truncates):,} truncates are kept, because a change of any age may still come, and each makes "
            "every commit of the table's changes larger; with retention, old ones go"
        )
    if seen.truncates or seen.is_older:
        rows = _with_deletes(context, contract, rows, seen.truncates, beside)
    rows = with_missing_deleted(context, contract, rows, found, beside.rows)
    if seen.last_move != NO_MOVE:
        rows, spread = _followed(context, contract, replace(spread, rows=rows), (seen.moves, since, beside))
    return replace(spread, rows=rows.drop(MOVED))


def _followed(
    context: TableRun,
    contract: Contract,
    spread: Spread,
    of: tuple[Sequence[Move], Mapping[str, int], Beside],
) -> tuple[DataFrame, Spread]:
    """Remove void deletes, and fill the missing values of changes of key."""
    moves, since, beside = of
    held, left = beside.rows, {}
    torn = departures.torn_departures(context, contract, spread.rows, None if beside.is_rebuild else held)
    if torn is not None and torn.num_rows:
        if any(torn["is_held"].to_pylist()):
            return spread.rows, replace(spread, is_late=True)
        spread = replace(spread, rows=departures.without_torn(context, contract, spread.rows, torn))
        left = {
            (one[departures.KEY], (one[r.POSITION], 0)): (one[departures.CAME_POSITION], 0) for one in torn.to_pylist()
        }
    repeated = departures.repeated_departures(context, contract, spread.rows, None if beside.is_rebuild else held)
    if repeated is not None and repeated.num_rows:
        if any(repeated["is_held"].to_pylist()):
            return spread.rows, replace(spread, is_late=True)
        spread = replace(spread, rows=departures.without_repeated(context, contract, spread.rows, repeated))
    shard = context.table.source.shard_column or ""
    emptied = [(*one.place, one.values.get(shard)) for one in spread.truncates]
    void = departures.void_departures(context, contract, spread.rows, held, emptied)
    if departures.holds_departures(context, contract, held, void):
        return spread.rows, replace(spread, is_late=True)
    rows = departures.without_departures(context, contract, spread.rows, void)
    # What is bad ends nothing.
    rows = rows.where(f"NOT coalesce({MOVED} = {literal(AWAY)}, false)")
    one_by_one = void.to_pylist()
    if moves:
        came = {
            (one[departures.KEY], (one[r.POSITION], one[r.ROW])): (
                one[departures.CAME_POSITION],
                one[departures.CAME_ROW],
            )
            for one in one_by_one
        }
        rows = fill_moves(context, contract, rows, stretches(moves, came, left), since, held=held)
    departed = max([spread.departed, *(one[r.POSITION] for one in one_by_one)])
    return rows, replace(spread, departed=departed)


def _is_late(
    context: TableRun, contract: Contract, rows: DataFrame, seen: _Seen, known: tuple[Place, str, bool]
) -> bool:
    """Return whether silver must be rebuilt from bronze.

    ``known`` has the last change of key, the last void delete, and whether changes of key may lack columns.
    """
    held, departed, lacks = known
    places = [one.place for one in seen.truncates]
    if any(place < held for place in places):
        return True
    if seen.least_of_move is None or seen.least_of_move >= held:
        return False
    changes = rows.where(_SAYS_WHERE)
    if departed and come_before_position(context, changes, departed):
        return True
    return come_before_moves(context, contract, changes, held, lacks=lacks)


def _with_deletes(
    context: TableRun, contract: Contract, rows: DataFrame, found: Sequence[Truncate], beside: Beside
) -> DataFrame:
    """Return the rows with truncates expanded to deletes."""
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
    """Return a SELECT of one delete for every pair of key and truncate with an older change of the key.

    ``has`` names the columns that a truncate has values of, and the column with the name of the shard.
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
    """Return SQL for the order of changes and truncates of all keys: the sequence first, which is never NULL."""
    return f"struct({', '.join(map(quote, (*contract.sequence_by, r.POSITION, r.ROW)))})"


def _carried(contract: Contract, shard: str | None) -> dict[str, str]:
    """Return the columns with values in a truncate, and their types."""
    types = {column.name: column.type for column in contract.columns}
    times = (contract.event_time,) if contract.event_time in types else ()
    return {name: types[name] for name in dict.fromkeys((*contract.sequence_by, *times, shard)) if name is not None}


def _seen(table: Table, rows: DataFrame, contract: Contract, known: Sequence[Truncate]) -> _Seen:
    """Scan all rows once; ``known`` has the truncates of earlier batches."""
    carried = _carried(contract, table.source.shard_column)
    has_moves = MOVED in rows.columns
    values = ", ".join(f"CAST({quote(name)} AS string) AS {quote(name)}" for name in carried)
    time = f"CAST({r.SOURCE_TIME} AS string) AS _time"
    held = f"struct({r.POSITION}, {r.ROW}, {r.FILE}, {r.BATCH}, {time}, struct({values or 'true AS _none'}) AS _values)"
    place = place_of_row(table)
    is_left = LEAVES if has_moves else "false"
    seen = rows.selectExpr(
        f"collect_list(CASE WHEN {_IS_TRUNCATE} THEN {held} END) AS found",
        f"coalesce(bool_or({_IS_CHANGE} AND ({_before_some(contract, known)})), false) AS is_older",
        f"min(CASE WHEN {_SAYS_WHERE} THEN {place} END) AS least_of_move",
        f"max(CASE WHEN {is_left} THEN {place} END) AS last_move",
        f"coalesce(min({r.POSITION}), '') AS least_position",
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
        least_position=seen["least_position"],
    )


def _before_some(contract: Contract, known: Sequence[Truncate]) -> str:
    """Return SQL that is true if a change is older than one of the truncates."""
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
