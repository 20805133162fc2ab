"""dbt: the marts as sources of a dbt project, with types, tests and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.spec import CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.interop.contracts import MartContract
    from frazil.silver.rules import RowRule
    from frazil.spec import Pipeline


def dbt_sources(pipeline: Pipeline, marts: Iterable[MartContract]) -> dict[str, Any]:
    """Return a properties file of dbt: one source a namespace, a table a mart, then the aggregates.

    Tests are those that dbt has of itself: ``unique`` of a key of one column (in history among the current versions),
    ``not_null`` and ``accepted_values``; what only warns has ``severity: warn``. All other rules are in ``meta``.
    """
    spaces = pipeline.lake.namespaces
    listed = [_table(one) for one in marts]
    sources = [_source(pipeline, spaces.marts, "Current tables and histories, kept level with their sources.", listed)]
    if pipeline.gold:
        made = [{"name": gold.name, "description": "An aggregate over the marts."} for gold in pipeline.gold]
        sources.append(_source(pipeline, spaces.gold, "Aggregates over the marts.", made))
    return {"version": 2, "sources": sources}


def _source(pipeline: Pipeline, space: str, says: str, listed: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": space,
        "description": says,
        "database": CATALOG,
        "schema": space,
        "config": {"meta": {"made_by": "frazil", "pipeline": pipeline.pipeline}},
        "tables": listed,
    }


def _table(one: MartContract) -> dict[str, Any]:
    rules = [
        {"name": rule.name, "says": rule.says, "on_violation": rule.on_violation}
        for rule in one.rules
        if not _has_test(rule)
    ]
    meta = {"source_table": one.source, "kind": one.mart.kind, "deletes": one.mart.deletes, "keys": [*one.keys]}
    return {
        "name": one.table.name,
        "description": one.says,
        "config": {"meta": meta | ({"rules": rules} if rules else {})},
        "columns": [_column(one, name, kind) for name, kind in one.columns.items()],
    }


def _column(one: MartContract, name: str, kind: str) -> dict[str, Any]:
    tests: list[Any] = []
    if one.keys == (name,):
        tests.append({"unique": {"config": {"where": "is_current"}}} if one.mart.kind == "history" else "unique")
    if name in one.keys:
        tests.append("not_null")
    tests += [_test(rule) for rule in one.rules if rule.column == name and _has_test(rule)]
    return {"name": name, "data_type": kind} | ({"data_tests": tests} if tests else {})


def _has_test(rule: RowRule) -> bool:
    return rule.name in ("not_null", "accepted_values")


def _test(rule: RowRule) -> Any:
    test: dict[str, Any] = {}
    if rule.name == "accepted_values":
        test["arguments"] = {"values": [*rule.values]} | ({} if rule.type == "string" else {"quote": False})
    if rule.on_violation == "warn":
        test["config"] = {"severity": "warn"}
    return {rule.name: test} if test else rule.name
