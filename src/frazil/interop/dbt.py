"""dbt: the marts as sources of a dbt project, with types, tests and lineage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from frazil.serve.check.table_rules import OF_VERSIONS
from frazil.spec import CATALOG
from frazil.spec.model.column import TABLE_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.interop.contracts import MartContract, MartRule
    from frazil.silver.rules import RowRule
    from frazil.spec import Pipeline

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS: Final = """
all alter and any anti as authorization between both by case cast check collate column constraint create cross cube
current_catalog current_date current_path current_role current_schema current_time current_timestamp current_user
deallocate default delete desc describe distinct do drop else end escape except execute exists extract false fetch
filter for foreign from full grant group grouping having in inner insert intersect into is join json_array
json_exists json_object json_query json_table json_value lateral leading left like limit listagg localtime
localtimestamp natural normalize not null offset on only or order outer overlaps prepare primary qualify recursive
references right rollup select semi session_user skip some table then to trailing trim true uescape union unique
unknown unnest user using values when where window with
"""
_RESERVED: Final = frozenset(_WORDS.split())
"""Reserved words of Trino, Spark and DuckDB; a column of such a name must be quoted."""


def dbt_sources(pipeline: Pipeline, marts: Iterable[MartContract]) -> dict[str, Any]:
    """Return a dbt properties file: one source for each namespace, with a table for each mart and aggregate.

    Rules become dbt's built-in tests: ``unique`` of one column (in a history, of current versions), ``not_null`` and
    ``accepted_values`` (in a history, also of the columns that it adds), and ``relationships`` to a mart of living
    rows. Rules that only warn have ``severity: warn``. The freshness of a time column is the source's ``freshness``.
    All other rules are in ``meta``, because dbt has no built-in test of several columns or of row counts.

    Args:
        pipeline: the declaration.
        marts: the marts, see :func:`frazil.interop.contracts.mart_contracts`.
    """
    spaces = pipeline.lake.namespaces
    listed = [_table(one) for one in marts]
    sources = [_source(pipeline, spaces.marts, "Current tables and histories, kept level with their sources.", listed)]
    if pipeline.gold:
        made = [
            {"name": gold.name, "description": gold.description or "An aggregate over the marts."}
            for gold in pipeline.gold
        ]
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
        for rule in _row_rules(one)
        if not _has_test(rule)
    ]
    rules += [
        {"name": own.rule.name, **own.rule.model_dump(mode="json", exclude_unset=True, include={*TABLE_RULES})}
        | ({} if own.rule.freshness is not None else {"on_violation": own.rule.on_violation})
        for own in one.mart_rules
        if not _mart_test(one, own) and not _freshness(one, own)
    ]
    config = next((found for own in one.mart_rules if (found := _freshness(one, own))), {})
    meta = {"source_table": one.source, "kind": one.mart.kind, "deletes": one.mart.deletes, "keys": [*one.keys]}
    return {
        "name": one.table.name,
        "description": one.says,
        "config": {"meta": meta | ({"rules": rules} if rules else {}), **config},
        "columns": [_column(one, name, kind) for name, kind in one.columns.items()],
    }


def _column(one: MartContract, name: str, kind: str) -> dict[str, Any]:
    tests: list[Any] = []
    if one.keys == (name,):
        tests.append({"unique": {"config": {"where": "is_current"}}} if one.mart.kind == "history" else "unique")
    if name in one.keys:
        tests.append("not_null")
    tests += [_test(rule) for rule in _row_rules(one) if rule.column == name and _has_test(rule)]
    tests += [test for own in one.mart_rules if own.rule.columns == (name,) and (test := _mart_test(one, own))]
    quoted = {} if _is_plain(name) else {"quote": True}
    return {"name": name, "data_type": kind, **quoted} | ({"data_tests": tests} if tests else {})


def _is_plain(name: str) -> bool:
    """Return whether a name needs no quotes in dbt's SQL."""
    return _PLAIN.fullmatch(name) is not None and name.lower() not in _RESERVED


def _row_rules(one: MartContract) -> tuple[RowRule, ...]:
    """Return the row rules; for a history, also those of the columns that it adds."""
    if one.mart.kind != "history":
        return one.rules
    # An open version that is no longer known is not current.
    left_out = "current_is_open" if one.mart.bitemporal else ""
    return (*one.rules, *(rule for rule in OF_VERSIONS if rule.name != left_out))


def _has_test(rule: RowRule) -> bool:
    return rule.name in ("not_null", "accepted_values")


def _test(rule: RowRule) -> Any:
    test: dict[str, Any] = {}
    if rule.name == "accepted_values":
        test["arguments"] = {"values": [*rule.values]} | ({} if rule.type == "string" else {"quote": False})
    if rule.on_violation == "warn":
        test["config"] = {"severity": "warn"}
    return {rule.name: test} if test else rule.name


def _mart_test(one: MartContract, own: MartRule) -> dict[str, Any]:
    """Return the dbt test of a column for a rule of a whole mart; empty if dbt has no such test."""
    rule, config = own.rule, {}
    if rule.on_violation == "warn":
        config["severity"] = "warn"
    if one.living != "true":
        config["where"] = one.living
    more: dict[str, Any] = {"config": config} if config else {}
    if rule.unique is not None and len(rule.unique) == 1:
        return {"unique": {"name": f"{one.table.name}_{rule.name}", **more}}
    if rule.references is not None and len(own.fields) == 1 and own.is_exact and _is_plain(own.fields[0]):
        arguments = {"to": f"source('{one.table.namespace}', '{rule.references.to}')", "field": own.fields[0]}
        return {"relationships": {"name": f"{one.table.name}_{rule.name}", "arguments": arguments, **more}}
    return {}


def _freshness(one: MartContract, own: MartRule) -> dict[str, Any]:
    """Return the ``freshness`` of a source table; empty if the rule is not about a column."""
    fresh = own.rule.freshness
    if fresh is None or fresh.column is None or not _is_plain(fresh.column):
        return {}
    kind = one.columns.get(fresh.column)
    field = f"cast({fresh.column} as timestamp)" if kind == "date" else fresh.column
    ages = fresh.model_dump(mode="json", exclude_none=True, include={"warn_after", "error_after"})
    return {"loaded_at_field": field, "freshness": ages | ({} if one.living == "true" else {"filter": one.living})}
