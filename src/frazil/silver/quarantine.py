"""Split change rows into good ones and those for quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.silver.changes import PROBLEM, TEXT
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.silver.contract import Contract

QUARANTINE_COLUMNS = {
    r.FILE: "string",
    r.ROW: "bigint",
    r.POSITION: "string",
    r.BATCH: "bigint",
    "rule": "string",
    "reason": "string",
    "column": "string",
    "raw": "string",
}
"""Columns of ``silver.<t>_quarantine``: the place of a record, the broken rule, and the record."""


def change_columns(contract: Contract) -> dict[str, str]:
    """Return the columns of ``silver.<t>_changes``: name -> type."""
    return {column.name: column.type for column in contract.columns} | {
        r.CLASS: "string",
        r.POSITION: "string",
        r.ROW: "bigint",
        r.FILE: "string",
        r.BATCH: "bigint",
        r.KNOWN: "array<string>",
        r.SOURCE_TIME: "timestamp",
    }


def good(rows: DataFrame) -> DataFrame:
    """Keep the change rows without a problem, in the shape of ``silver.<t>_changes``."""
    return rows.where(f"{PROBLEM} IS NULL").drop(PROBLEM, TEXT)


def quarantined(rows: DataFrame, said: Mapping[str, str] | None = None) -> DataFrame:
    """Keep the records with a problem, in the shape of ``silver.<t>_quarantine``.

    Args:
        rows: from :func:`frazil.silver.changes.change_rows`.
        said: reason of a problem -> the text to write instead; a few entries.
    """
    reason = f"{PROBLEM}.reason"
    if said:
        cases = " ".join(f"WHEN {literal(short)} THEN {literal(whole)}" for short, whole in said.items())
        reason = f"CASE {reason} {cases} ELSE {reason} END"
    problem = (f"{PROBLEM}.rule AS rule", f"{reason} AS reason", f"{PROBLEM}.column AS {quote('column')}")
    at = (r.FILE, r.ROW, r.POSITION, r.BATCH)
    return rows.where(f"{PROBLEM} IS NOT NULL").selectExpr(*at, *problem, f"{TEXT} AS raw")
