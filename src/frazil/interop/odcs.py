"""The marts as a data contract of the Open Data Contract Standard (ODCS)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from frazil.interop.odcs_rules import agreed_of, checks_of, checks_of_property, relationships_of
from frazil.spec.model.types import outer_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.interop.contracts import MartContract
    from frazil.silver.rules import RowRule
    from frazil.spec import Pipeline

VERSION: Final = "v3.1.0"
"""The first version of the standard with timestamps."""

_LOGICAL: Final = {
    "int": "integer",
    "bigint": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
}
_OPTIONS: Final = {"min": "minimum", "max": "maximum", "min_length": "minLength", "max_length": "maxLength"}


def odcs_contract(pipeline: Pipeline, marts: Iterable[MartContract]) -> dict[str, Any]:
    """Return a data contract with an object for each mart: its keys, types and rules.

    Bounds, lengths and patterns are options of the logical type. Accepted values are a check of invalid values, and
    rules over several columns are SQL checks. The ``severity`` of a check says whether it stops a run. For rules of
    whole marts see :mod:`frazil.interop.odcs_rules`.

    Args:
        pipeline: the declaration.
        marts: the marts, see :func:`frazil.interop.contracts.mart_contracts`.
    """
    listed = [*marts]
    agreed = [one for mart in listed for one in agreed_of(mart)]
    return {
        "apiVersion": VERSION,
        "kind": "DataContract",
        "id": f"frazil-{pipeline.pipeline}",
        "name": pipeline.pipeline,
        "version": "1.0.0",
        "status": "active",
        "schema": [_object(one) for one in listed],
    } | ({"slaProperties": agreed} if agreed else {})


def _object(one: MartContract) -> dict[str, Any]:
    checks = [_by_sql(rule) for rule in one.rules if rule.expr is not None] + checks_of(one)
    relationships = relationships_of(one)
    more = ({"relationships": relationships} if relationships else {}) | ({"quality": checks} if checks else {})
    return {
        "name": one.table.name,
        "physicalName": one.table.full_name,
        "physicalType": "table",
        "logicalType": "object",
        "description": one.says,
        "properties": [_property(one, name, kind) for name, kind in one.columns.items()],
    } | more


def _logical(kind: str) -> str:
    outer = outer_of(kind)
    return {"decimal": "number", "array": "array", "struct": "object"}.get(outer) or _LOGICAL.get(kind, "string")


def _property(one: MartContract, name: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "logicalType": _logical(kind),
        "physicalType": kind,
    }
    if name in one.required:
        found["required"] = True
    # In a history a key has many rows.
    if name in one.keys and one.mart.kind == "current":
        found |= {"primaryKey": True, "primaryKeyPosition": one.keys.index(name) + 1}
        found |= {"unique": True} if len(one.keys) == 1 else {}
    own = [rule for rule in one.rules if rule.column == name]
    if options := {_option(rule): _value(rule) for rule in own if _option(rule)}:
        found["logicalTypeOptions"] = options
    checks = [check for rule in own if (check := _check(rule)) is not None]
    if checks := checks + checks_of_property(one, name):
        found["quality"] = checks
    return found


def _option(rule: RowRule) -> str:
    return _OPTIONS.get(rule.name, "pattern" if rule.name == "pattern" else "")


def _value(rule: RowRule) -> Any:
    """Return a bound as a number if that is exact, else as text."""
    (text,) = rule.values
    if rule.name in ("min_length", "max_length"):
        return int(text)
    if rule.name == "pattern" or rule.type in ("string", "date", "timestamp", "timestamp_ntz"):
        return text
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else float(number)


def _check(rule: RowRule) -> dict[str, Any] | None:
    if rule.name == "accepted_values":
        arguments = {"arguments": {"validValues": [*rule.values]}}
        return {"metric": "invalidValues", "name": rule.full_name, **arguments, "mustBe": 0, **_severity(rule)}
    if rule.name == "not_null" and rule.on_violation == "warn":
        return {"metric": "nullValues", "name": rule.full_name, "mustBe": 0, **_severity(rule)}
    return None


def _by_sql(rule: RowRule) -> dict[str, Any]:
    query = f"SELECT count(*) FROM ${{object}} WHERE NOT ({rule.expr})"
    return {"type": "sql", "name": rule.name, "query": query, "mustBe": 0, **_severity(rule)}


def _severity(rule: RowRule) -> dict[str, str]:
    return {"severity": "warning" if rule.on_violation == "warn" else "error"}
