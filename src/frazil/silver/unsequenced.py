"""SEQUENCE-OF-DELETES: a delete that lacks a column of ``sequence_by`` is ordered by its place.

It takes the greatest sequence among the changes of its key at earlier places, so it comes after all of them. Places
are those of the source, so the result depends on the set of changes and not on their arrival. Silver has complete
sequences; ``_cdc_known`` of such a delete leaves out the sequence columns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.silver.changes import PROBLEM
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.silver.contract import Contract

POSITION: Final = "unsequenced"
"""Key of silver's bookmark: the greatest position of a delete that lacks its sequence."""
_LEAST: Final = {
    "int": "-2147483648",
    "bigint": "-9223372036854775808",
    "float": "-Infinity",
    "double": "-Infinity",
    "date": "0001-01-01",
    "timestamp": "0001-01-01 00:00:00+00:00",
    "timestamp_ntz": "0001-01-01 00:00:00",
    "boolean": "false",
}
_SEQUENCE, _IS_OPEN = "_cdc_sequence", "_cdc_is_open"


def lacks_sequence(contract: Contract) -> str:
    """Write the condition that a change of silver is a delete without its own sequence; never NULL."""
    lacks = " OR ".join(f"NOT array_contains({r.KNOWN}, {literal(name)})" for name in contract.sequence_by)
    return f"({r.CLASS} = {literal(r.DELETE)} AND coalesce({lacks or 'false'}, false))"


def last_position(contract: Contract) -> str:
    """Write the aggregate with the last position of a delete without its own sequence, over change rows."""
    return f"max(CASE WHEN {PROBLEM} IS NULL AND {lacks_sequence(contract)} THEN {r.POSITION} END) AS {POSITION}"


def with_sequences(rows: DataFrame, held: DataFrame | None, contract: Contract, *, orders_records: bool) -> DataFrame:
    """Give deletes without a sequence the greatest sequence of their key at earlier places.

    Args:
        rows: from :func:`frazil.silver.changes.change_rows`, without truncates.
        held: other changes in silver; None without any.
        contract: the table's contract.
        orders_records: the position alone defines the place of a change.

    Returns:
        The same rows. A delete of a key without earlier changes gets the least value of each sequence column, so it
        comes before every upsert.

    Cost: a scan of the keys, sequences and places of silver; a shuffle and sort of the changes of these keys.
    """
    is_open = f"({lacks_sequence(contract)} AND {PROBLEM} IS NULL)"
    read = [*dict.fromkeys((*contract.keys, *contract.sequence_by, r.POSITION, r.ROW))]
    lacking, others = rows.where(is_open), rows.where(f"NOT {is_open}")
    earlier = others.where(f"{PROBLEM} IS NULL").select(*map(quote, read))
    if held is not None:
        earlier = earlier.unionByName(held.where(f"NOT {lacks_sequence(contract)}").select(*map(quote, read)))
    keys, ordering = (", ".join(map(quote, names)) for names in (contract.keys, contract.sequence_by))
    of_keys = earlier.join(lacking.select(*map(quote, contract.keys)), [*contract.keys], "left_semi").select(
        *map(quote, read)
    )
    row = "0L" if orders_records else r.ROW
    is_whole = " AND ".join(f"{quote(name)} IS NOT NULL" for name in contract.sequence_by)
    sequence = f"CASE WHEN {_IS_OPEN} IS NULL AND {is_whole} THEN struct({ordering}) END"
    among = lacking.selectExpr("*", f"true AS {_IS_OPEN}").unionByName(of_keys, allowMissingColumns=True)
    types = {column.name: column.type for column in contract.columns}

    def shown(name: str) -> str:
        if name not in contract.sequence_by:
            return quote(name)
        return f"coalesce({_SEQUENCE}.{quote(name)}, {_least(types[name])}) AS {quote(name)}"

    before = f"(PARTITION BY {keys} ORDER BY struct({r.POSITION}, {row}))"
    taken = among.selectExpr("*", f"max({sequence}) OVER {before} AS {_SEQUENCE}").where(_IS_OPEN)
    return others.unionByName(taken.selectExpr(*map(shown, rows.columns)))


def late_sequences(rows: DataFrame, held: DataFrame, contract: Contract, *, orders_records: bool) -> DataFrame:
    """Return one row for each change that gives a delete in silver a new sequence.

    Args:
        rows: change rows of the batch.
        held: the changes of silver.
        contract: the table's contract.
        orders_records: the position alone defines the place of a change.

    Cost: the deletes of silver that lack their sequence against the batch.
    """
    place = "{0}." + r.POSITION if orders_records else f"struct({{0}}.{r.POSITION}, {{0}}.{r.ROW})"
    sequence = "struct(" + ", ".join(f"{{0}}.{quote(name)}" for name in contract.sequence_by) + ")"
    is_whole = " AND ".join(f"l.{quote(name)} IS NOT NULL" for name in contract.sequence_by)
    of_key = " AND ".join(f"h.{quote(name)} = l.{quote(name)}" for name in contract.keys)
    is_earlier = f"{place.format('l')} < {place.format('h')}"
    is_greater = f"{is_whole} AND {sequence.format('l')} > {sequence.format('h')}"
    deletes, late = held.where(lacks_sequence(contract)).alias("h"), rows.where(f"{PROBLEM} IS NULL").alias("l")
    return deletes.crossJoin(late).where(f"{of_key} AND {is_earlier} AND {is_greater}").selectExpr("1")


def _least(kind: str) -> str:
    """Write the least value of a type."""
    if kind.startswith("decimal"):
        digits, scale = map(int, re.findall(r"\d+", kind))
        return f"CAST('-{'9' * (digits - scale) or '0'}.{'9' * scale}' AS {kind})"
    return f"CAST({literal(_LEAST.get(kind, ''))} AS {kind})"
