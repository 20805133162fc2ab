"""The laws as DuckDB SQL: the expected rows of the marts, folded from the typed changes.

This code is written independently of ``marts``, which does the same in Spark, so that each finds the other's mistakes.
A fold only compares values and never computes with them, so it can read hashes instead of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.duck import duck_literal, identifier
from frazil.spec import Current, History

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frazil.serve.layers import Layers

# No column of a contract begins with _cdc_.
TIME: Final = "_cdc_time"
UPSERT: Final = "_cdc_upsert"
TOLD: Final = "_cdc_told"
KEPT: Final = (UPSERT, r.POSITION, r.ROW, TIME, r.SOURCE_TIME, TOLD)
"""Columns that a fold needs of a change besides the contract's: class, place, event time, the source's own time, and
the event time that the row carries."""
_OWN_TIME: Final = "_cdc_own_time_"

_ORDER_AFTER_SEQUENCE: Final = f"{r.POSITION}, {r.ROW}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Input of a fold.

    Attributes:
        rows: FROM clause with ``columns``, ``sequence_by`` and ``KEPT``. Every change carries every column.
        keys: columns that identify a row; they are among ``columns``.
        sequence_by: columns that order the changes of a key, before their place does.
        columns: columns that the fold returns.
        snapshot_places: LIKE pattern for the positions of rows that follow a snapshot's own truncate, or None.
    """

    rows: str
    keys: tuple[str, ...]
    sequence_by: tuple[str, ...]
    columns: tuple[str, ...]
    snapshot_places: str | None

    @property
    def so_far(self) -> str:
        """The window over a key's changes, from the first to the current one."""
        order = ", ".join([*map(identifier, self.sequence_by), _ORDER_AFTER_SEQUENCE, UPSERT])
        return f"(PARTITION BY {names_of(self.keys)} ORDER BY {order} ROWS UNBOUNDED PRECEDING)"


def in_order(sequence_by: Sequence[str]) -> str:
    """Return the ORDER BY expressions that sort a key's changes by ORDER; the content hash is not included."""
    return ", ".join([*map(identifier, sequence_by), _ORDER_AFTER_SEQUENCE, f"({r.CLASS} = '{r.UPSERT}')"])


def names_of(columns: Iterable[str], prefix: str = "") -> str:
    """Return quoted column names, separated by commas."""
    return ", ".join(f"{prefix}{identifier(name)}" for name in columns)


def flag_columns(mart: Current | History) -> tuple[str, ...]:
    """Return the columns of a mart besides the contract's and the place of its record."""
    match mart:
        case Current(deletes="soft"):
            return ("is_deleted", "deleted_at")
        case Current():
            return ()
        case History():
            return ("valid_from", "valid_to", "is_current", "is_deleted")


def mart_columns_sql(columns: Sequence[str], mart: Current | History) -> str:
    """Return the quoted columns of a mart that its changes determine, in the order of :func:`wanted`."""
    return names_of((*columns, *flag_columns(mart), r.POSITION, r.ROW))


def ties(here: Layers) -> str:
    """Return the SELECT of keys with changes that only Spark's content hash or the source's time orders."""
    keys, order = names_of(here.table.keys), in_order(here.table.sequence_by)
    told = f", {r.SOURCE_TIME}" if r.SOURCE_TIME in here.changes.snapshot.columns else ""
    content = f"hash({names_of(here.columns)}, CAST({r.KNOWN} AS VARCHAR){told})"
    return (
        f"SELECT DISTINCT {keys} FROM (SELECT {keys} FROM {here.changes.rows} GROUP BY {keys}, {order} "
        f"HAVING min({content}) <> max({content}))"
    )


def with_values(here: Layers, upto: int, columns: Sequence[str], where: str = "true") -> Changes:
    """Return the changes up to a batch that meet a condition, with their values.

    Args:
        here: the tables of the source table.
        upto: the newest batch to read.
        columns: columns that the fold returns.
        where: SQL condition over silver.
    """
    times = ", ".join(times_of(here))
    source = f"(SELECT *, {times} FROM {here.changes.rows} WHERE {r.BATCH} <= {upto} AND {where})"
    return Changes(
        rows=f"({complete(here, columns, source)})",
        keys=here.table.keys,
        sequence_by=here.table.sequence_by,
        columns=tuple(columns),
        snapshot_places=here.table.source.snapshot_places,
    )


def time_of(here: Layers) -> str:
    """Return SQL for the event time of a change; NULL if the table declares none."""
    times = [f"CAST({identifier(name)} AS TIMESTAMPTZ)" for name in here.event_times]
    return f"coalesce({', '.join(times)})" if times else "CAST(NULL AS TIMESTAMPTZ)"


def times_of(here: Layers) -> list[str]:
    """Return SQL for the time columns that :func:`complete` reads."""
    own = [
        f"CAST({identifier(name)} AS TIMESTAMPTZ) AS {_OWN_TIME}{number}"
        for number, name in enumerate(here.event_times)
        if not is_complete(here)
    ]
    # Silver from an older version lacks the column; the next run rebuilds it.
    has_source = r.SOURCE_TIME in here.changes.snapshot.columns
    source = [] if has_source else [f"CAST(NULL AS TIMESTAMPTZ) AS {r.SOURCE_TIME}"]
    return [f"{time_of(here)} AS {TIME}", *source, *own]


def is_complete(here: Layers) -> bool:
    """Return whether every change carries every column, so that no value has to be filled in."""
    bookmark = here.changes.snapshot.bookmark
    return not bookmark.get("partial") and not bookmark.get("since")


def complete(here: Layers, columns: Sequence[str], rows: str) -> str:
    """Return the SELECT of changes with all columns filled in (MISSING-IS-NOT-NULL).

    Args:
        here: the tables of the source table.
        columns: columns to select.
        rows: FROM clause with silver's columns and those of :func:`times_of`.
    """
    upsert = f"{r.CLASS} = '{r.UPSERT}' AS {UPSERT}, {r.POSITION}, {r.ROW}, {TIME}, {r.SOURCE_TIME}"
    if is_complete(here):
        return f"SELECT {names_of(columns)}, {upsert}, {TIME} AS {TOLD} FROM {rows}"
    since = dict(here.changes.snapshot.bookmark.get("since", {}))
    keys, order = names_of(here.table.keys), in_order(here.table.sequence_by)
    fixed = {*here.table.keys, *here.table.sequence_by}
    filled = ", ".join(
        identifier(name) if name in fixed else f"{_filled(name, since.get(name, 0))} AS {identifier(name)}"
        for name in columns
    )
    own = [(name, f"{_OWN_TIME}{number}") for number, name in enumerate(here.event_times)]
    told = [time if name in fixed else _filled(name, since.get(name, 0), time) for name, time in own]
    upsert += f", coalesce({', '.join([*told, 'NULL', 'NULL'])}) AS {TOLD}"
    # A delete ends all values: an upsert after it starts from nothing.
    life = (
        f"SELECT *, count(*) FILTER ({r.CLASS} = '{r.DELETE}') OVER "
        f"(PARTITION BY {keys} ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS _cdc_life FROM {rows}"
    )
    return (
        f"SELECT {filled}, {upsert} FROM ({life}) "
        f"WINDOW life AS (PARTITION BY {keys}, _cdc_life ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
    )


def _filled(name: str, since: int, value: str | None = None) -> str:
    """Return SQL for the value of a column in force at a change, or of an expression over that column alone."""
    column = value or identifier(name)
    carries = (
        f"{r.CLASS} = '{r.UPSERT}' AND CASE WHEN {r.KNOWN} IS NULL THEN {r.BATCH} >= {since} "
        f"ELSE list_contains({r.KNOWN}, {duck_literal(name)}) END"
    )
    carried = f"CASE WHEN {carries} THEN struct_pack(v := {column}) END"
    return f"struct_extract(last_value({carried} IGNORE NULLS) OVER life, 'v')"


def wanted(changes: Changes, mart: Current | History, tracked: Sequence[str]) -> str:
    """Return the SELECT of the expected rows of a mart, with the columns of :func:`mart_columns` in order.

    Args:
        changes: the changes to fold.
        mart: the declared mart.
        tracked: columns whose change opens a new version; used by histories only.
    """
    match mart:
        case Current(deletes="soft"):
            return _soft(changes)
        case Current():
            return _hard(changes)
        case History():
            return _versions(changes, tracked, mark=mart.deletes == "mark")


def _hard(changes: Changes) -> str:
    return (
        f"SELECT {names_of(changes.columns)}, {r.POSITION}, {r.ROW} FROM {changes.rows} "
        f"WINDOW so_far AS {changes.so_far} QUALIFY lead({r.ROW}) OVER so_far IS NULL AND {UPSERT}"
    )


def _soft(changes: Changes) -> str:
    living = f"CASE WHEN {UPSERT} THEN {_struct(changes.columns)} END"
    return (
        f"SELECT {names_of(changes.columns, '_cdc_values.')}, NOT {UPSERT}, "
        f"CASE WHEN NOT {UPSERT} THEN {_AT} END, {r.POSITION}, {r.ROW} FROM ("
        f"SELECT {', '.join(KEPT)}, last_value({living} IGNORE NULLS) OVER so_far AS _cdc_values, "
        f"{_LAST_TOLD} FROM {changes.rows} "
        f"WINDOW so_far AS {changes.so_far} QUALIFY lead({r.ROW}) OVER so_far IS NULL"
        ") WHERE _cdc_values IS NOT NULL"
    )


_LAST_TOLD: Final = (
    f"(last_value(CASE WHEN {UPSERT} THEN struct_pack(v := {TOLD}) END IGNORE NULLS) OVER so_far).v AS _cdc_last_told"
)
_AT: Final = (
    f"CASE WHEN {UPSERT} OR _cdc_last_told IS NULL OR {TIME} > _cdc_last_told "
    f"THEN coalesce({TIME}, {r.SOURCE_TIME}) ELSE greatest({r.SOURCE_TIME}, _cdc_last_told) END"
)
"""When a change took effect: a delete repeats the row's event time unless it has one of its own."""


def _versions(changes: Changes, tracked: Sequence[str], *, mark: bool) -> str:
    # Without tracked columns every living state is the same.
    state = _struct(tracked) if tracked else "true"
    known = f"last_value(CASE WHEN {UPSERT} THEN {_struct(changes.columns)} END IGNORE NULLS) OVER so_far"
    begin = _struct((r.POSITION, r.ROW, "_cdc_last_known"))
    by_key = f"by_key AS (PARTITION BY {names_of(changes.keys)} ORDER BY _cdc_number)"
    return f"""
    WITH standing AS (
        SELECT {names_of(changes.columns)}, {UPSERT}, {r.POSITION}, {r.ROW}, {state} AS _cdc_state,
            row_number() OVER so_far AS _cdc_number, max({_AT}) OVER so_far AS _cdc_from
            {f", {known} AS _cdc_last_known" if mark else ""}
        FROM (
            SELECT *, {_LAST_TOLD} FROM {changes.rows} WINDOW so_far AS {changes.so_far}
            QUALIFY NOT {_never_went(changes.snapshot_places)}
        )
        WINDOW so_far AS {changes.so_far}
        -- Of several upserts, or deletes, at one event time the last in order stands.
        QUALIFY lead({r.ROW}) OVER so_far IS NULL OR lead({UPSERT}) OVER so_far <> {UPSERT}
            OR lead({_AT}) OVER so_far > _cdc_from OR (_cdc_from IS NULL AND lead({_AT}) OVER so_far IS NOT NULL)
    ), ending AS (
        SELECT *, first_value(_cdc_from) OVER by_key AS _cdc_first_from, lead(_cdc_from) OVER by_key AS _cdc_next_from,
            lead({UPSERT}) OVER by_key AS _cdc_next_upsert
            {f", lead({begin}) OVER by_key AS _cdc_next_begin" if mark else ""}
        FROM standing WINDOW {by_key}
        QUALIFY _cdc_next_upsert IS NULL OR _cdc_next_upsert <> {UPSERT}
            OR ({UPSERT} AND lead(_cdc_state) OVER by_key IS DISTINCT FROM _cdc_state)
    ), versions AS (
        -- A version begins where the one before it ended.
        SELECT *, CASE WHEN lag(_cdc_number) OVER by_key IS NULL THEN _cdc_first_from
                ELSE lag(_cdc_next_from) OVER by_key END AS _cdc_begins_at
            {", lag(_cdc_next_begin) OVER by_key AS _cdc_begin" if mark else ""}
        FROM ending WINDOW {by_key}
    )
    {_mark(changes.columns) if mark else _close(changes.columns)}"""


def _never_went(snapshot_places: str | None) -> str:
    """Return the SQL condition that a change is a snapshot's delete of a row that the same snapshot brings."""
    if snapshot_places is None:
        return "false"
    then = f"lead(CASE WHEN {UPSERT} THEN {r.POSITION} END IGNORE NULLS) OVER so_far"
    is_own = f"{then} LIKE {duck_literal(snapshot_places)} AND starts_with({then}, {r.POSITION})"
    return f"(NOT {UPSERT} AND coalesce({is_own}, false))"


_INTERVAL: Final = "_cdc_begins_at, _cdc_next_from, _cdc_next_upsert IS NULL"


def _close(columns: Sequence[str]) -> str:
    return f"""
    SELECT {names_of(columns)}, {_INTERVAL}, coalesce(NOT _cdc_next_upsert, false), {r.POSITION}, {r.ROW}
    FROM versions WHERE {UPSERT}"""


def _mark(columns: Sequence[str]) -> str:
    # A key that begins with a delete was never seen alive, not even for an instant: its first version has no begin.
    return f"""
    SELECT {names_of(columns, "_cdc_shown.")}, {_INTERVAL}, NOT {UPSERT},
        CASE WHEN {UPSERT} THEN {r.POSITION} ELSE _cdc_begin.{r.POSITION} END,
        CASE WHEN {UPSERT} THEN {r.ROW} ELSE _cdc_begin.{r.ROW} END
    FROM (
        SELECT *, CASE WHEN {UPSERT} THEN {_struct(columns)} ELSE _cdc_begin._cdc_last_known END AS _cdc_shown
        FROM versions
    )
    WHERE {UPSERT} OR _cdc_begin._cdc_last_known IS NOT NULL"""


def _struct(columns: Iterable[str]) -> str:
    return f"struct_pack({', '.join(f'{identifier(name)} := {identifier(name)}' for name in columns)})"
