"""KEY-CHANGE: a record with a changed key is a delete of the old key and an upsert of the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.silver.contract import Contract

MOVED: Final = "_cdc_moved"
"""Column with the old key, see :func:`key_text`, of a change of key that does not carry every column; ``WHOLE`` if it
does; ``LEFT`` in the delete of a change of key; otherwise NULL."""
LEFT: Final = ""
WHOLE: Final = "whole"
LACKS: Final = f"{MOVED} NOT IN ({literal(LEFT)}, {literal(WHOLE)})"
"""SQL condition of a change of key that does not carry every column; NULL for other changes."""
OLD: Final = "_cdc_old_"
"""Prefix of columns with the typed values of keys before a change."""


def with_old_keys_deleted(rows: str, contract: Contract, newest: int, beside: tuple[str, str]) -> str:
    """Write the SELECT that adds a delete of the old key to every change of key.

    Args:
        rows: SELECT of change rows, with the old keys.
        contract: the table's contract; its columns for previous keys get the old values.
        newest: the first batch of the newest column: records of earlier batches do not carry it.
        beside: the columns with a row's problem and with its record as text.
    """
    problem, text = beside
    whole = " AND ".join(f"{quote(OLD + key)} IS NOT NULL" for key in contract.keys)
    same = " AND ".join(f"{quote(OLD + key)} <=> {quote(key)}" for key in contract.keys)
    moved = f"{whole} AND NOT ({same}) AND {r.CLASS} = {literal(r.UPSERT)} AND {problem} IS NULL"
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
            CASE WHEN {moved} THEN CASE WHEN {lacks} THEN {key_text(contract.keys, OLD)} ELSE {literal(WHOLE)} END
            END AS {MOVED}
        FROM changes
        UNION ALL SELECT {gone}, {literal(r.DELETE)}, {place}, {r.KNOWN}, {r.SOURCE_TIME}, {problem}, {text},
            {literal(LEFT)}
        FROM changes WHERE {moved}"""


def key_text(keys: Iterable[str], prefix: str = "") -> str:
    """Write a key as a unique text; ``prefix`` precedes the column names."""
    return f"to_json(struct({', '.join(f'{quote(prefix + key)} AS {quote(key)}' for key in keys)}))"
