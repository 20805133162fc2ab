"""Data contracts of the Open Data Contract Standard (ODCS): written from the marts, and read as a first declaration."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import yaml

from frazil.errors import DeclarationError
from frazil.interop.odcs_rules import (
    agreed_of,
    checks_of,
    checks_of_property,
    relationships_of,
    rule_of_check,
    rules_of_agreed,
    rules_of_relationships,
    valid,
)
from frazil.spec import Pipeline
from frazil.spec.check.check import problems
from frazil.spec.model.types import column_type, outer_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from frazil.interop.contracts import MartContract
    from frazil.silver.rules import RowRule

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


_TYPES: Final = {
    "integer": "bigint",
    "number": "decimal(38,9)",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
}
_READ_OPTIONS: Final = {
    "minimum": "min",
    "maximum": "max",
    "pattern": "pattern",
    "minLength": "min_length",
    "maxLength": "max_length",
}
_COUNT: Final = re.compile(r"\s*select count\(\*\) from \$\{object\} where not \((.*)\)\s*", re.IGNORECASE | re.DOTALL)


class NoContractError(DeclarationError):
    """The file is not a data contract that declares tables."""

    code = "FZ109"


def contract_declaration(path: Path, name: str) -> str:
    """Return the text of a declaration with a table for each object of a data contract.

    Types come from ``physicalType`` if Frazil knows it, else from ``logicalType``. The declaration has the contract's
    keys, required properties, accepted values, bounds, lengths, patterns, and SQL checks of the form that ``frazil
    export odcs`` writes. For rules of whole marts see :mod:`frazil.interop.odcs_rules`. Comments name settings that
    are left out or guessed.

    Args:
        path: the contract, YAML or JSON.
        name: name of the pipeline.

    Raises:
        NoContractError: the file cannot be read, or has no objects with properties.
    """
    try:
        contract = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise NoContractError(
            f"{path} cannot be read as YAML: {error}", hint="name a data contract (ODCS 3)"
        ) from error
    objects = contract.get("schema") if isinstance(contract, dict) else None
    found = [one for one in objects or () if isinstance(one, dict) and one.get("properties")]
    if not found:
        raise NoContractError(f"{path} has no schema with properties", hint="name a data contract (ODCS 3)")
    lines = [
        f"# From {path.name}. Before the first run, declare the sources of the changes and review the comments.",
        f"pipeline: {_flow(name)}",
        "lake: {warehouse: ./lake}",
        "tables:",
    ]
    known = {f"{one.get('name')}": _table_name(one) for one in found}
    agreed = [one for one in contract.get("slaProperties") or () if isinstance(one, dict)]

    def text(refused: Collection[tuple[str | int, ...]] = ()) -> str:
        tables = (_table(one, known, agreed, {at[3] for at in refused if at[1] == n}) for n, one in enumerate(found))
        return "\n".join([*lines, *(line for table in tables for line in table)]) + "\n"

    return text(_refused_rules(text()))


def _refused_rules(text: str) -> set[tuple[str | int, ...]]:
    """Return the places of invalid rules in a declaration, such as a rule over an unknown column."""
    try:
        pipeline = Pipeline.model_validate(yaml.safe_load(text))
    except ValueError:
        return set()  # the mistakes are not in the rules
    paths = [problem.path for problem in problems(pipeline)]
    return {path[:4] for path in paths if path[2:3] == ("rules",) and len(path) > len(("tables", 0, "rules"))}


def _table_name(one: dict[str, Any]) -> str:
    return re.sub(r"\W", "_", f"{one.get('name')}".lower(), flags=re.ASCII)


def _table(
    one: dict[str, Any], known: dict[str, str], agreed: list[dict[str, Any]], refused: Collection[str | int]
) -> Iterator[str]:
    name = _table_name(one)
    properties = [item for item in one["properties"] if isinstance(item, dict) and item.get("name")]
    keyed = sorted(
        (item for item in properties if item.get("primaryKey")), key=lambda x: x.get("primaryKeyPosition", 0)
    )
    keys = [item["name"] for item in keyed]
    yield f"  - name: {name}"
    yield f"    source: {{kind: dms, path: ./landing/{name}, header: true}}"
    yield f"    keys: {_flow(keys or [properties[0]['name']])}" + (
        "" if keys else "  # the contract names no primary key"
    )
    yield "    columns:"
    for item in properties:
        column, left = _column(item, is_key=item["name"] in keys)
        yield f"      - {_flow(column)}" + (f"  # not taken: {', '.join(left)}" if left else "")
    rules, left = _rules(one.get("quality") or ())
    for said, rule in _of_whole(one, known, agreed):
        if rule is None or not valid([rule]):
            left.append(said)
        else:
            rules.append(rule)
    left += [rule["name"] for number, rule in enumerate(rules) if number in refused]
    rules = [rule for number, rule in enumerate(rules) if number not in refused]
    if rules:
        yield "    rules:"
        yield from (f"      - {_flow(rule)}" for rule in rules)
    if left:
        yield f"    # not taken: {', '.join(left)}"


def _column(item: dict[str, Any], *, is_key: bool) -> tuple[dict[str, Any], list[str]]:
    """Return a column, and the names of settings that were left out."""
    column: dict[str, Any] = {"name": item["name"], "type": _type(item)}
    left = []
    if item.get("required") and not is_key:
        column["nullable"] = False
    for option, value in (item.get("logicalTypeOptions") or {}).items():
        if option in _READ_OPTIONS:
            column[_READ_OPTIONS[option]] = value
        else:
            left.append(option)
    severities = []
    for check in item.get("quality") or ():
        values = (check.get("arguments") or check).get("validValues")
        if values and check.get("mustBe", 0) == 0:
            column["accepted_values"] = values
            severities.append(check.get("severity", "error"))
        elif check.get("metric") == "nullValues" and check.get("mustBe") == 0:
            column["nullable"] = False
            severities.append(check.get("severity", "error"))
        elif rule_of_check(check, item["name"]) is not None:
            continue  # a rule of the whole table
        else:
            left.append(f"{check.get('name') or check.get('metric') or check.get('type') or 'a check'}")
    if severities and "error" not in severities:
        column["on_violation"] = "warn"
    return column, left


def _type(item: dict[str, Any]) -> str:
    try:
        return column_type(f"{item.get('physicalType') or ''}")
    except DeclarationError:
        return _TYPES.get(f"{item.get('logicalType')}", "string")


def _rules(checks: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    rules, left = [], []
    for check in checks:
        name = f"{check.get('name') or check.get('metric') or 'a check'}"
        found = _COUNT.fullmatch(f"{check.get('query')}")
        if rule_of_check(check) is not None:
            continue
        if found and check.get("mustBe") == 0:
            rule = {"name": re.sub(r"\W", "_", name.lower(), flags=re.ASCII), "expr": found[1]}
            rules.append(rule | ({"on_violation": "warn"} if check.get("severity") == "warning" else {}))
        else:
            left.append(name)
    return rules, left


def _of_whole(
    one: dict[str, Any], known: dict[str, str], agreed: list[dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield the rules of a whole mart, each with its name in the contract; an unusable rule is None."""
    for item in one["properties"]:
        checks = item.get("quality") or ()
        found = [rule for check in checks if (rule := rule_of_check(check, item["name"])) is not None]
        if item.get("unique") and not item.get("primaryKey") and not found:
            found = [
                {"name": re.sub(r"\W", "_", f"unique_{item['name']}".lower(), flags=re.ASCII), "unique": [item["name"]]}
            ]
        yield from ((rule["name"], rule) for rule in found)
    yield from ((rule["name"], rule) for check in one.get("quality") or () if (rule := rule_of_check(check)))
    yield from rules_of_relationships(one, known)
    yield from ((rule["name"], rule) for rule in rules_of_agreed(agreed, f"{one.get('name')}"))


def _flow(value: object) -> str:
    """Return a value as one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.removesuffix("...\n").strip()
