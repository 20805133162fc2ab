"""KEY-CHANGE: a record with a changed key is a delete of the old key and an upsert of the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.silver.contract import Contract

MOVED: Final = "_cdc_moved"
"""The old key, see :func:`key_text`, of a change of key that does not carry every column; ``WHOLE`` of one that does;
``LEFT`` of the delete that stands beside a change of key, ``AWAY`` where that one is bad; ``OWN`` of a delete that is a
record of its own; else NULL."""
LEFT: Final = ""
OWN: Final = "own"
WHOLE: Final = "whole"
AWAY: Final = "away"
LEAVES: Final = f"{MOVED} IN ({literal(LEFT)}, {literal(AWAY)}, {literal(OWN)})"
"""SQL condition of what says that a row left its key; NULL where no key changes."""
LACKS: Final = f"({MOVED} <> {literal(WHOLE)} AND NOT {LEAVES})"
"""SQL condition of a change of key that does not carry every column; NULL where no key changes."""
OLD: Final = "_cdc_old_"
"""Prefix of columns with the typed values of keys before a change."""


def with_old_keys_deleted(rows: str, contract: Contract, newest: int, beside: tuple[str, str]) -> str:
    """Write the SELECT that adds a delete of the old key to every change of key.

    A bad change of key brings a row that only says that a row left: the ``AWAY`` of ``_cdc_moved``, which silver does
    not take. A delete that names another key is the delete of a change of key, in a record of its own.

    Args:
        rows: SELECT of change rows, with the old keys.
        contract: the table's contract; its columns for previous keys get the old values.
        newest: the first batch of the newest column: records of earlier batches do not carry it.
        beside: the columns with a row's problem and with its record as text.
    """
    problem, text = beside
    whole = " AND ".join(f"{quote(OLD + key)} IS NOT NULL" for key in contract.keys)
    same = " AND ".join(f"{quote(OLD + key)} <=> {quote(key)}" for key in contract.keys)
    leaves = f"{whole} AND NOT ({same}) AND {r.CLASS} = {literal(r.UPSERT)}"
    moved = f"{leaves} AND {problem} IS NULL"
    is_left = f"{whole} AND NOT ({same}) AND {r.CLASS} = {literal(r.DELETE)} AND {problem} IS NULL"
    previous, types = dict(contract.previous), {column.name: column.type for column in contract.columns}

    def kept(name: str) -> str:
        if name not in previous:
            return quote(name)
        kind = types[name]
        return f"CASE WHEN {moved} THEN CAST({quote(OLD + previous[name])} AS {kind}) END AS {quote(name)}"

    carries, known = f"coalesce(size({r.KNOWN}) + {len(previous)} >= {len(types)}, true)", r.KNOWN
    if previous:
        added = ", ".join(map(literal, previous))
        known = (
            f"CASE WHEN {moved} THEN CASE WHEN NOT {carries} THEN concat({r.KNOWN}, array({added})) END "
            f"ELSE {r.KNOWN} END AS {r.KNOWN}"
        )
    columns = ", ".join(map(kept, contract.names))
    gone = ", ".join(quote(OLD + name if name in contract.keys else name) for name in contract.names)
    place = f"{r.POSITION}, {r.ROW}, {r.FILE}, {r.BATCH}"
    lacks = f"(NOT {carries} OR {r.BATCH} < {int(newest)})"
    return f"""WITH changes AS ({rows})
        SELECT {columns}, {r.CLASS}, {place}, {known},
            CASE WHEN {r.CLASS} <> {literal(r.UPSERT)} THEN {r.SOURCE_TIME} END AS {r.SOURCE_TIME}, {problem}, {text},
            CASE WHEN {moved} AND {lacks} THEN {key_text(contract.keys, OLD)} WHEN {leaves} THEN {literal(WHOLE)}
            WHEN {is_left} THEN {literal(OWN)} END AS {MOVED}
        FROM changes
        UNION ALL SELECT {gone}, {literal(r.DELETE)}, {place}, {r.KNOWN}, {r.SOURCE_TIME},
            CASE WHEN {moved} THEN {problem} END, CASE WHEN {moved} THEN {text} END,
            CASE WHEN {moved} THEN {literal(LEFT)} ELSE {literal(AWAY)} END
        FROM changes WHERE {leaves}"""


def key_text(keys: Iterable[str], prefix: str = "") -> str:
    """Write a key as a unique text; ``prefix`` precedes the column names."""
    return f"to_json(struct({', '.join(f'{quote(prefix + key)} AS {quote(key)}' for key in keys)}))"
