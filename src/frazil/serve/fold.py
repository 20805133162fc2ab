"""The laws as DuckDB SQL: what the marts must hold, folded anew from the typed changes.

Written apart from ``marts``, which does the same in Spark, so that each can find the other's mistakes. Every
function here returns the text of a SELECT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.serve.duck import identifier, literal
from frazil.spec import Current, History

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frazil.serve.layers import Layer, Layers

_TIME: Final = "_cdc_time"  # no column of a contract begins so
_KEPT: Final = f"{r.CLASS}, {r.POSITION}, {r.ROW}, {_TIME}"


def in_order(sequence_by: Sequence[str]) -> str:
    """What stands after ORDER BY to have changes of a key in ORDER, but for ties of the content hash."""
    return ", ".join([*map(identifier, sequence_by), r.POSITION, r.ROW, f"({r.CLASS} = '{r.UPSERT}')"])


def names_of(columns: Iterable[str], prefix: str = "") -> str:
    """Write column names after one another, quoted."""
    return ", ".join(f"{prefix}{identifier(name)}" for name in columns)


def ties(here: Layers) -> str:
    """Select the keys with changes that only the content hash orders: DuckDB cannot compute Spark's."""
    keys, order = names_of(here.table.keys), in_order(here.table.sequence_by)
    content = f"hash({names_of(here.columns)}, CAST({r.KNOWN} AS VARCHAR))"
    return (
        f"SELECT DISTINCT {keys} FROM (SELECT {keys} FROM {here.changes.rows} GROUP BY {keys}, {order} "
        f"HAVING min({content}) <> max({content}))"
    )


def wanted(here: Layers, mart: Current | History, layer: Layer) -> str:
    """Select the rows that a mart must hold at its batch; its columns are those of ``shown``, in order."""
    columns = here.columns_in(layer)
    match mart:
        case Current(deletes="soft"):
            return _soft(here, layer, columns)
        case Current():
            return _hard(here, layer, columns)
        case History():
            return _versions(here, mart, layer, columns)


def shown(here: Layers, mart: Current | History, layer: Layer) -> str:
    """Columns of a mart, quoted, that its changes decide."""
    return names_of((*here.columns_in(layer), *_added(mart), r.POSITION, r.ROW))


def _added(mart: Current | History) -> tuple[str, ...]:
    match mart:
        case Current(deletes="soft"):
            return ("is_deleted", "deleted_at")
        case Current():
            return ()
        case History():
            return ("valid_from", "valid_to", "is_current", "is_deleted")


def _complete(here: Layers, upto: int, columns: Sequence[str]) -> str:
    """Select all changes of batches up to ``upto``, each with every column (MISSING-IS-NOT-NULL)."""
    times = [f"CAST({identifier(name)} AS TIMESTAMPTZ)" for name in here.event_times]
    time = f"coalesce({', '.join(times)})" if times else "CAST(NULL AS TIMESTAMPTZ)"
    rows = f"(SELECT *, {time} AS {_TIME} FROM {here.changes.rows} WHERE {r.BATCH} <= {upto})"
    bookmark = here.changes.stand.bookmark
    since = dict(bookmark.get("since", {}))
    if not bookmark.get("partial") and not since:
        return f"SELECT {names_of(columns)}, {_KEPT} FROM {rows}"
    keys, order = names_of(here.table.keys), in_order(here.table.sequence_by)
    fixed = {*here.table.keys, *here.table.sequence_by}
    filled = ", ".join(identifier(name) if name in fixed else _filled(name, since.get(name, 0)) for name in columns)
    # A delete ends all values: an upsert after it starts from nothing.
    life = (
        f"SELECT *, count(*) FILTER ({r.CLASS} = '{r.DELETE}') OVER "
        f"(PARTITION BY {keys} ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS _cdc_life FROM {rows}"
    )
    return (
        f"SELECT {filled}, {_KEPT} FROM ({life}) "
        f"WINDOW life AS (PARTITION BY {keys}, _cdc_life ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
    )


def _filled(name: str, since: int) -> str:
    column = identifier(name)
    carries = (
        f"{r.CLASS} = '{r.UPSERT}' AND CASE WHEN {r.KNOWN} IS NULL THEN {r.BATCH} >= {since} "
        f"ELSE list_contains({r.KNOWN}, {literal(name)}) END"
    )
    value = f"CASE WHEN {carries} THEN struct_pack(v := {column}) END"
    return f"struct_extract(last_value({value} IGNORE NULLS) OVER life, 'v') AS {column}"


def _newest(here: Layers, upto: int, columns: Sequence[str]) -> str:
    """Select the newest change of each key, and in ``_cdc_values`` the values of its newest upsert."""
    keys, order = names_of(here.table.keys), in_order(here.table.sequence_by)
    living = f"CASE WHEN {r.CLASS} = '{r.UPSERT}' THEN {_struct(columns)} END"
    # A window is sorted, and a sort goes to disk where memory ends; arg_max would not.
    return (
        f"SELECT {_KEPT}, last_value({living} IGNORE NULLS) OVER so_far AS _cdc_values "
        f"FROM ({_complete(here, upto, columns)}) "
        f"WINDOW so_far AS (PARTITION BY {keys} ORDER BY {order} ROWS UNBOUNDED PRECEDING) "
        f"QUALIFY lead({r.ROW}) OVER so_far IS NULL"
    )


def _hard(here: Layers, layer: Layer, columns: Sequence[str]) -> str:
    return (
        f"SELECT {names_of(columns, '_cdc_values.')}, {r.POSITION}, {r.ROW} "
        f"FROM ({_newest(here, layer.stand.batch, columns)}) WHERE {r.CLASS} = '{r.UPSERT}'"
    )


def _soft(here: Layers, layer: Layer, columns: Sequence[str]) -> str:
    deleted = f"{r.CLASS} = '{r.DELETE}'"
    return (
        f"SELECT {names_of(columns, '_cdc_values.')}, {deleted}, "
        f"CASE WHEN {deleted} THEN {_TIME} END, {r.POSITION}, {r.ROW} "
        f"FROM ({_newest(here, layer.stand.batch, columns)}) WHERE _cdc_values IS NOT NULL"
    )


def _versions(here: Layers, mart: History, layer: Layer, columns: Sequence[str]) -> str:
    keys, order = names_of(here.table.keys), in_order(here.table.sequence_by)
    tracked = [name for name in here.tracked(mart) if name in columns]
    upsert = f"{r.CLASS} = '{r.UPSERT}'"
    # Without tracked columns every living state is the same.
    state = _struct(tracked) if tracked else "true"
    start = _struct(("_cdc_from", r.POSITION, r.ROW, "_cdc_last_known", "_cdc_leading"))
    return f"""
    WITH timed AS (
        SELECT {keys}, {r.POSITION}, {r.ROW}, {upsert} AS _cdc_upsert, {_struct(columns)} AS _cdc_living,
            CASE WHEN {upsert} THEN {state} END AS _cdc_state,
            row_number() OVER so_far AS _cdc_number,
            max({_TIME}) OVER so_far AS _cdc_from,
            last_value(CASE WHEN {upsert} THEN {_struct(columns)} END IGNORE NULLS) OVER so_far
                AS _cdc_last_known
        FROM ({_complete(here, layer.stand.batch, columns)})
        WINDOW so_far AS (PARTITION BY {keys} ORDER BY {order} ROWS UNBOUNDED PRECEDING)
    ), standing AS (
        -- Of several changes at one event time the last in order stands.
        SELECT * FROM timed
        WINDOW by_key AS (PARTITION BY {keys} ORDER BY _cdc_number)
        QUALIFY lead(_cdc_number) OVER by_key IS NULL
            OR lead(_cdc_from) OVER by_key IS DISTINCT FROM _cdc_from
    ), marked AS (
        SELECT *, lag(_cdc_number) OVER by_key IS NULL AS _cdc_leading,
            lag(_cdc_number) OVER by_key IS NULL OR lag(_cdc_upsert) OVER by_key <> _cdc_upsert
                OR lag(_cdc_state) OVER by_key IS DISTINCT FROM _cdc_state AS _cdc_begins
        FROM standing WINDOW by_key AS (PARTITION BY {keys} ORDER BY _cdc_number)
    ), ended AS (
        SELECT *,
            last_value(CASE WHEN _cdc_begins THEN {start} END IGNORE NULLS)
                OVER (by_key ROWS UNBOUNDED PRECEDING) AS _cdc_start,
            lead(_cdc_from) OVER by_key AS _cdc_next_from, lead(_cdc_upsert) OVER by_key AS _cdc_next_upsert,
            lead(_cdc_number) OVER by_key IS NULL AS _cdc_last
        FROM marked WINDOW by_key AS (PARTITION BY {keys} ORDER BY _cdc_number)
        QUALIFY lead(_cdc_number) OVER by_key IS NULL OR lead(_cdc_begins) OVER by_key
    )
    {_close(columns) if mart.deletes == "close" else _mark(columns)}"""


_INTERVAL: Final = "_cdc_start._cdc_from, _cdc_next_from, _cdc_last"


def _close(columns: Sequence[str]) -> str:
    return f"""
    SELECT {names_of(columns, "_cdc_living.")}, {_INTERVAL}, coalesce(NOT _cdc_next_upsert, false),
        {r.POSITION}, {r.ROW}
    FROM ended WHERE _cdc_upsert"""


def _mark(columns: Sequence[str]) -> str:
    # A key that begins with a delete was never seen alive, not even for an instant.
    return f"""
    SELECT {names_of(columns, "_cdc_shown.")}, {_INTERVAL}, NOT _cdc_upsert,
        CASE WHEN _cdc_upsert THEN {r.POSITION} ELSE _cdc_start.{r.POSITION} END,
        CASE WHEN _cdc_upsert THEN {r.ROW} ELSE _cdc_start.{r.ROW} END
    FROM (
        SELECT *, CASE WHEN _cdc_upsert THEN _cdc_living ELSE _cdc_start._cdc_last_known END AS _cdc_shown
        FROM ended
    )
    WHERE _cdc_upsert OR (_cdc_start._cdc_last_known IS NOT NULL AND NOT _cdc_start._cdc_leading)"""


def _struct(columns: Iterable[str]) -> str:
    return f"struct_pack({', '.join(f'{identifier(name)} := {identifier(name)}' for name in columns)})"
