"""The changes that a baseline keeps: all changes that some mart needs, each with every column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.marts.fold import fill
from frazil.marts.layout import EVENT_TIME, IS_UPSERT, columns_of, fold_spec, order
from frazil.marts.query import query_frames
from frazil.silver.baseline import Served
from frazil.spec import Current, History
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from frazil.marts.layout import FoldSpec
    from frazil.silver.baseline import Baseline
    from frazil.silver.contract import Contract

_UP: Final = "_cdc_up"
_NUMBER: Final = "_cdc_number"
_LAST: Final = "_cdc_last"
_STANDS: Final = "_cdc_stands"
_TELLS: Final = "_cdc_tells"
_ODD: Final = "_cdc_odd"
_BY_RECORD: Final = f"OVER (PARTITION BY {r.FILE}, {r.ROW})"
_IS_MOVE: Final = f"NOT min({IS_UPSERT}) {_BY_RECORD} AND max({IS_UPSERT}) {_BY_RECORD}"
"""A record with a delete and an upsert is a change of key."""
_PLACE: Final = f"struct({r.POSITION}, {r.ROW})"


def served_of(marts: Iterable[Current | History], contract: Contract) -> Served:
    """Return the needs of marts from a baseline."""
    tracked, deleted = [], False
    for mart in marts:
        if isinstance(mart, History):
            tracked.append(fold_spec(contract, mart, since={}, partial=False).tracked)
        deleted = deleted or isinstance(mart, History) or mart.deletes == "soft"
    return Served(deleted=deleted, tracked=tuple(dict.fromkeys(tracked)))


def baseline_rows(changes: DataFrame, spec: FoldSpec, baseline: Baseline, *, moves: bool = False) -> DataFrame:
    """Keep the changes of a baseline.

    The fold of the kept changes and of any newer changes equals the fold of all changes. Kept are:

    - the newest upsert of each live key;
    - the last upsert and the last change of deleted keys, if marts need deleted keys;
    - for histories, the first and last change of each version, every delete, and the last known values before it.

    If the source orders its changes itself, times can run against the order. All changes of such a key are then kept,
    and all changes of a key with a time at or after the horizon.

    If records can change keys, these are kept too: each change of key with its delete and its upsert, because an erase
    follows a row from key to key; the last change of each key by place, which supplies values that a later change of
    key does not carry; and all changes of keys whose order runs against their places, where these values may come from
    several changes.


    Args:
        changes: *all* changes older than the horizon, in the shape of silver, with event time.
        spec: the table's parts.
        baseline: the needs of the marts, and the horizon.
        moves: records can change keys.

    Returns:
        Some of the rows, in the same shape, without event time. Every upsert carries every column, except for keys with
        all changes kept.

    Cost: one shuffle on the keys and one sort; one more if some changes do not carry every column, and two more if
    records can change keys.
    """
    names, served = [name for name in changes.columns if name != EVENT_TIME], baseline.served
    by_time = baseline.by_place and bool(served.tracked)
    if not moves and not by_time:
        return _kept(changes, names, spec, served)
    told = _with_places(changes, spec, baseline.before if by_time else None)
    if not spec.fills and not by_time:
        return _kept(told, names, spec, served, moves=True)
    whole = told.where(_ODD).select(*map(quote, names))
    return _kept(told.where(f"NOT {_ODD}"), names, spec, served, moves=moves).unionByName(whole)


def _with_places(changes: DataFrame, spec: FoldSpec, before: str | None) -> DataFrame:
    """Mark odd keys, whose order runs against the places of their changes, and changes that are always kept.

    With ``before``, a key is also odd if its order runs against its times, or if one of its times is not before that
    time. Changes of key, and the last change of an odd key by place, are always kept.
    """
    keys = columns_of(spec.keys)
    by_key = f"(PARTITION BY {keys} ORDER BY _cdc_order)"
    against = f"lag({_PLACE}) OVER {by_key} > {_PLACE}"
    if before is not None:
        latest = f"greatest({EVENT_TIME}, {r.SOURCE_TIME})"
        is_newer = f"{latest} >= CAST({literal(before)} AS timestamp)"
        against = f"{against} OR lag({latest}) OVER {by_key} > {EVENT_TIME} OR {is_newer}"
    told = query_frames(
        f"""
        SELECT *, _cdc_is_move OR (_cdc_is_last AND {_ODD}) AS {_TELLS}
        FROM (
            SELECT *, max(_cdc_against) OVER (PARTITION BY {keys}) AS {_ODD} FROM (
                SELECT
                    *, {_IS_MOVE} AS _cdc_is_move,
                    lead(true) OVER (PARTITION BY {keys} ORDER BY {_PLACE}) IS NULL AS _cdc_is_last,
                    coalesce({against}, false) AS _cdc_against
                FROM (SELECT *, {order(spec)} AS _cdc_order FROM frazil_changes)
            )
        )""",
        frazil_changes=changes,
    )
    return told.drop("_cdc_order", "_cdc_is_move", "_cdc_against", "_cdc_is_last")


def _kept(
    changes: DataFrame, names: Sequence[str], spec: FoldSpec, served: Served, *, moves: bool = False
) -> DataFrame:
    """Keep the changes that marts need, each with every column; with ``moves`` also the marked ones."""
    whole = fill(changes, spec) if spec.fills else changes
    newest_column = max(spec.since.values(), default=0)
    batch = f"greatest({r.BATCH}, {newest_column}L)" if newest_column else r.BATCH
    shown = [f"{batch} AS {r.BATCH}" if name == r.BATCH else quote(name) for name in names]
    keys = columns_of(spec.keys)
    if not served.deleted:
        # A key with further kept changes also keeps its last change, whatever its class.
        kept = [f"{_LAST} AND {IS_UPSERT}", *([_TELLS, f"{_LAST} AND _cdc_has_more"] if moves else [])]
        more = f", max({_TELLS}) OVER (PARTITION BY {keys}) AS _cdc_has_more" if moves else ""
        return query_frames(
            f"""
            SELECT {", ".join(shown)} FROM (
                SELECT *, lead(true) OVER (PARTITION BY {keys} ORDER BY _cdc_order) IS NULL AS {_LAST}{more}
                FROM (SELECT *, {order(spec)} AS _cdc_order FROM frazil_changes)
            ) WHERE {" OR ".join(f"({one})" for one in kept)}""",
            frazil_changes=whole,
        )
    kept = [_LAST, f"{_UP} AND _cdc_last_upsert = {_NUMBER}", *([_TELLS] if moves else [])]
    if served.tracked:
        kept.append(f"NOT {_UP}")  # each may end a version later than its order suggests
    for number in range(len(served.tracked)):
        kept += [f"{_STANDS} AND (_cdc_begins_{number} OR _cdc_ends_{number})", _is_last_known(number)]
    # Among several upserts at one event time the last in order counts: it must be kept so that no other replaces it.
    kept_of_time = f"max(_cdc_kept) OVER (PARTITION BY {keys}, {EVENT_TIME})"
    return query_frames(
        f"""
        WITH {_numbered(spec)}, {_joined(spec, served)}
        SELECT {", ".join(shown)} FROM (
            SELECT *, {_STANDS} AND {kept_of_time} AS _cdc_stands_for
            FROM (SELECT *, {" OR ".join(f"({one})" for one in kept)} AS _cdc_kept FROM joined)
        ) WHERE _cdc_kept OR _cdc_stands_for""",
        frazil_changes=whole,
    )


def _numbered(spec: FoldSpec) -> str:
    """Write the changes with their number in the order of their key, and whether they count at their event time."""
    by_key = f"(PARTITION BY {columns_of(spec.keys)} ORDER BY _cdc_order)"
    return f"""numbered AS (
            SELECT
                *, {IS_UPSERT} AS {_UP}, row_number() OVER {by_key} AS {_NUMBER},
                lead(true) OVER {by_key} IS NULL AS {_LAST},
                coalesce(
                    NOT (lead(struct({EVENT_TIME}, {IS_UPSERT})) OVER {by_key} <=> struct({EVENT_TIME}, {IS_UPSERT})),
                    true
                ) AS {_STANDS}
            FROM (SELECT *, {order(spec)} AS _cdc_order FROM frazil_changes)
        )"""


def _joined(spec: FoldSpec, served: Served) -> str:
    """Write the changes with the next changes of their key, and the boundaries of versions of each history."""
    keys = columns_of(spec.keys)
    among = f"(PARTITION BY {keys}, {_STANDS} ORDER BY {_NUMBER})"
    behind = f"(PARTITION BY {keys} ORDER BY {_NUMBER} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
    begins: list[str] = []
    ends: list[str] = []
    nexts: list[str] = []
    for number, tracked in enumerate(served.tracked):
        state = f"struct({_UP}, CASE WHEN {_UP} THEN struct({columns_of(tracked) or 'true'}) END)"
        for name, found, side in (("begins", begins, "lag"), ("ends", ends, "lead")):
            found.append(f"NOT ({side}(struct({state})) OVER {among} <=> struct({state})) AS _cdc_{name}_{number}")
        nexts.append(
            f"first_value(CASE WHEN {_STANDS} THEN struct({_NUMBER}, {_UP}, _cdc_begins_{number} AS begins) END, true) "
            f"OVER {behind} AS _cdc_next_{number}"
        )
    inner = ", ".join(["*", *begins, *ends])
    outer = ", ".join(
        [
            "*",
            f"max(CASE WHEN {_UP} THEN {_NUMBER} END) OVER (PARTITION BY {keys}) AS _cdc_last_upsert",
            f"min(CASE WHEN {_UP} THEN {_NUMBER} END) OVER {behind} AS _cdc_next_upsert",
            *nexts,
        ]
    )
    return f"joined AS (SELECT {outer} FROM (SELECT {inner} FROM numbered))"


def _is_last_known(number: int) -> str:
    """Write the condition that a gap shows the values of an upsert that does not count: the gap begins at its time."""
    after = f"_cdc_next_{number}"
    begins = f"NOT {after}.{_UP} AND {after}.begins"
    return f"{_UP} AND NOT {_STANDS} AND {begins} AND coalesce(_cdc_next_upsert > {after}.{_NUMBER}, true)"
