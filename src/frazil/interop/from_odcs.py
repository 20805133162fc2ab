"""Import of data contracts of the Open Data Contract Standard (ODCS) as a first declaration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from frazil.errors import DeclarationError
from frazil.interop.odcs_rules import rule_of_check, rules_of_agreed, rules_of_relationships, valid
from frazil.spec import Pipeline
from frazil.spec.check.check import problems
from frazil.spec.model.types import column_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

_TYPES: Final = {
    "integer": "bigint",
    "number": "decimal(38,9)",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
}
_OPTIONS: Final = {
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
        if option in _OPTIONS:
            column[_OPTIONS[option]] = value
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
    """Yield the rules of a whole mart, each with its name in the contract; the rule is None if it cannot be used."""
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
