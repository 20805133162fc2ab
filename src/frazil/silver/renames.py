"""Renamed fields: all records are read under the current names.

Bronze keeps every record under its original names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.bronze import record as r
from frazil.spec.contract import final_names
from frazil.spec.model.types import type_after
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.spec import Table


def renamed_fields(table: Table, fields: Mapping[str, str]) -> dict[str, str]:
    """Return fields by current name with their types, each at the position of its first name."""
    finals, found = final_names(table), dict[str, tuple[str, str]]()
    for name, kind in fields.items():
        now = finals.get(name.lower(), name)
        first, have = found.get(now.lower(), (now, kind))
        found[now.lower()] = (first, type_after(have, kind, table.evolution.on_type_change))
    return dict(found.values())


def renamed_bookmark(table: Table, bronze: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return bronze's bookmark with current field names; a field with two names gets its earlier first batch.

    Args:
        table: the declaration.
        bronze: the bookmark; may be empty.
    """
    if not table.renames or not bronze:
        return bronze
    finals, since = final_names(table), dict(bronze.get("since", {}))
    arrived: dict[str, int] = {}
    for name in bronze.get("fields", {}):
        now = finals.get(name.lower(), name)
        arrived[now] = min(arrived.get(now, since.get(name, 0)), since.get(name, 0))
    return {
        **bronze,
        "fields": renamed_fields(table, bronze.get("fields", {})),
        "since": {name: batch for name, batch in arrived.items() if batch},
    }


def renamed_records(records: DataFrame, table: Table, bronze: Mapping[str, Any]) -> DataFrame:
    """Rename the fields of bronze records to their current names.

    Args:
        records: n rows of bronze.
        table: the declaration.
        bronze: bronze's own bookmark.

    Returns:
        The same rows. If a record carries a field under several names, the newest name counts.
    """
    finals = final_names(table)
    here = {name.lower(): name for name in records.columns}
    targets: dict[str, list[str]] = {}
    for old, now in finals.items():
        if old in here:
            targets.setdefault(now, []).append(here[old])
    if not targets:
        return records
    since = {name.lower(): batch for name, batch in bronze.get("since", {}).items()}
    gone = {name for olds in targets.values() for name in olds}
    made = []
    for now, olds in targets.items():
        # The declaration lists the latest rename last.
        names = [here[now.lower()], *reversed(olds)] if now.lower() in here else [*reversed(olds)]
        cases = " ".join(f"WHEN {_carries(name, since.get(name.lower(), 0))} THEN {quote(name)}" for name in names)
        made.append(f"CASE {cases} END AS {quote(now)}")
    rest = [quote(name) for name in records.columns if name not in gone and name not in targets and name != r.KNOWN]
    return records.selectExpr(*rest, *made, f"{_known_now(finals)} AS {r.KNOWN}")


def _carries(name: str, batch: int) -> str:
    listed = f"exists({r.KNOWN}, field -> lower(field) = {literal(name.lower())})"
    return f"({r.KNOWN} IS NULL AND {r.BATCH} >= {batch} OR coalesce({listed}, false))"


def _known_now(finals: Mapping[str, str]) -> str:
    cases = " ".join(f"WHEN lower(field) = {literal(old)} THEN {literal(now)}" for old, now in finals.items())
    return f"transform({r.KNOWN}, field -> CASE {cases} ELSE field END)"
