"""Bitemporal history: the versions of each key and the times when they were known; no row is overwritten.

A *belief* is the set of versions of a key that follow from its changes up to a batch. A row of a bitemporal history is
a version that consecutive beliefs share. It was known from the time of the first of these batches until the time of the
key's next batch without it. So the rows depend only on the changes and their batches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from frazil.bronze import record as r
from frazil.marts.fold import fill
from frazil.marts.history import BASE, versions
from frazil.marts.layout import EVENT_TIME, IS_UPSERT, columns_of, same
from frazil.marts.query import query_frames
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.marts.layout import FoldSpec

AS_OF: Final = "_cdc_as_of"
"""The last batch of a belief."""
KNOWN_AT: Final = "_cdc_known_at"
"""The time when a batch was known."""


def known_times(arrivals: DataFrame) -> DataFrame:
    """Return the time when each batch was known: the latest arrival of a record of this or an earlier batch.

    Args:
        arrivals: rows of bronze, at least one of each batch, with ``_cdc_batch`` and ``_cdc_arrived_at``.

    Returns:
        One row a batch: ``_cdc_as_of`` and ``_cdc_known_at``.
    """
    return query_frames(
        f"""
        SELECT {r.BATCH} AS {AS_OF}, max(_cdc_at) OVER (ORDER BY {r.BATCH}) AS {KNOWN_AT}
        FROM (SELECT {r.BATCH}, max({r.ARRIVED_AT}) AS _cdc_at FROM frazil_arrivals GROUP BY {r.BATCH})""",
        frazil_arrivals=arrivals,
    )


def known_versions(
    changes: DataFrame,
    times: DataFrame,
    spec: FoldSpec,
    deletes: Literal["close", "mark"],
    *,
    held: DataFrame | None = None,
    after: int = 0,
) -> DataFrame:
    """Compute the rows of a bitemporal history for some keys.

    Args:
        changes: *all* changes of these keys in the shape of silver, with event time; each key has one after ``after``.
        times: from :func:`known_times`.
        spec: the table's parts.
        deletes: as for :func:`frazil.marts.history.versions`.
        held: the history's rows of these keys, as of batch ``after``; None without any.
        after: batches up to this one are in ``held``.

    Returns:
        The contract's columns, ``valid_from``, ``valid_to``, ``is_current``, ``is_deleted``, ``known_from``,
        ``known_to`` (NULL while known), ``_cdc_position``, ``_cdc_row``. Rows that were known for no time are left out.

    Cost: a join of each batch of a key after ``after`` with the changes of the key, a fold and a sort.
    """
    keys, is_same = columns_of(spec.keys), same(spec.keys, "c", "b")
    beliefs = query_frames(
        f"""
        SELECT *, row_number() OVER by_key AS _cdc_number, lead({KNOWN_AT}) OVER by_key AS _cdc_next_at
        FROM (SELECT DISTINCT {keys}, {r.BATCH} AS {AS_OF} FROM frazil_changes WHERE {r.BATCH} > {int(after)})
        JOIN frazil_times USING ({AS_OF})
        WINDOW by_key AS (PARTITION BY {keys} ORDER BY {AS_OF})""",
        frazil_changes=changes,
        frazil_times=times,
    )
    crossed = query_frames(
        f"""
        SELECT c.*, b.{AS_OF} FROM frazil_changes AS c JOIN frazil_beliefs AS b
        ON {is_same} AND c.{r.BATCH} <= b.{AS_OF}""",
        frazil_changes=changes,
        frazil_beliefs=beliefs,
    )
    parted = replace(spec, apart=(AS_OF,))
    whole = fill(crossed, parted) if spec.fills else crossed
    made = versions(whole.selectExpr("*", f"false AS {BASE}"), parted, deletes)
    shown = columns_of((*spec.columns, "valid_from", "valid_to", "is_deleted", r.POSITION, r.ROW), "c")
    known = query_frames(
        f"""
        SELECT {shown}, b._cdc_number, b.{KNOWN_AT}, b._cdc_next_at
        FROM frazil_made AS c JOIN frazil_beliefs AS b ON {is_same} AND c.{AS_OF} = b.{AS_OF}""",
        frazil_made=made,
        frazil_beliefs=beliefs,
    )
    if held is None:
        return _rows(known, spec)
    before = query_frames(
        f"""
        SELECT {shown}, 0 AS _cdc_number, c.known_from AS {KNOWN_AT}, b.{KNOWN_AT} AS _cdc_next_at
        FROM frazil_held AS c JOIN frazil_beliefs AS b ON {is_same} AND b._cdc_number = 1
        WHERE c.known_to IS NULL""",
        frazil_held=held,
        frazil_beliefs=beliefs,
    )
    closed = held.where("known_to IS NOT NULL")
    return _rows(before.unionByName(known), spec).unionByName(
        closed.select(*map(quote, spec.columns), *_ADDED, r.POSITION, r.ROW)
    )


def known_open_versions(changes: DataFrame, times: DataFrame, spec: FoldSpec) -> DataFrame:
    """Compute the rows of a bitemporal history for keys with a single change; see :func:`known_versions`.

    Args:
        changes: the single change of each key, in the shape of silver, with event time.
        times: from :func:`known_times`.
        spec: the table's parts.


    Cost: narrow; the times are broadcast.
    """
    return query_frames(
        f"""
        SELECT /*+ BROADCAST(b) */
            {columns_of(spec.columns, "c")},
            c.{EVENT_TIME} AS valid_from,
            CAST(NULL AS timestamp) AS valid_to,
            true AS is_current,
            false AS is_deleted,
            b.{KNOWN_AT} AS known_from,
            CAST(NULL AS timestamp) AS known_to,
            {columns_of((r.POSITION, r.ROW), "c")}
        FROM frazil_changes AS c JOIN frazil_times AS b ON c.{r.BATCH} = b.{AS_OF}
        WHERE {IS_UPSERT}""",
        frazil_changes=changes,
        frazil_times=times,
    )


_ADDED: Final = ("valid_from", "valid_to", "is_current", "is_deleted", "known_from", "known_to")


def _rows(known: DataFrame, spec: FoldSpec) -> DataFrame:
    """Merge each version that consecutive beliefs of its key share to one row, with the place of the last belief."""
    content = f"struct({columns_of((*spec.columns, 'valid_to', 'is_deleted'))})"
    # At one time begin one version and the empty ones that deletes leave; only equal empty ones can be the same.
    empty = f"CASE WHEN valid_to = valid_from THEN {content} END"
    begin = f"{columns_of((*spec.keys, 'valid_from'))}, {empty}"
    by_version = f"PARTITION BY {begin}, _cdc_twin ORDER BY _cdc_number"
    twins = f"PARTITION BY {begin}, _cdc_number ORDER BY {columns_of((r.POSITION, r.ROW))}"
    return query_frames(
        f"""
        SELECT {columns_of(spec.columns)}, valid_from, valid_to, valid_to IS NULL AND known_to IS NULL AS is_current,
            is_deleted, known_from, known_to, {columns_of((r.POSITION, r.ROW))}
        FROM (
            SELECT
                *,
                last(CASE WHEN _cdc_begins THEN {KNOWN_AT} END, true) OVER so_far AS known_from,
                _cdc_next_at AS known_to,
                coalesce(lead(_cdc_begins) OVER by_version, true) AS _cdc_ends
            FROM (
                SELECT *, NOT (_cdc_before <=> struct(_cdc_number - 1 AS _cdc_number, {content})) AS _cdc_begins
                FROM (
                    SELECT *, lag(struct(_cdc_number, {content})) OVER by_version AS _cdc_before
                    FROM (SELECT *, row_number() OVER ({twins}) AS _cdc_twin FROM frazil_known)
                    WINDOW by_version AS ({by_version})
                )
            )
            WINDOW by_version AS ({by_version}),
                so_far AS ({by_version} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        )
        WHERE _cdc_ends AND (known_to IS NULL OR known_to > known_from)""",
        frazil_known=known,
    )
