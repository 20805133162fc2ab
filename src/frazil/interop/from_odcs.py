"""A data contract of the Open Data Contract Standard (ODCS) becomes a declaration to begin with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from frazil.errors import DeclarationError
from frazil.spec.types import column_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
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
    """A file is no data contract that tables can be declared by."""

    code = "FZ109"


def declaration(path: Path, name: str) -> str:
    """Write a declaration with a table for each object of a data contract.

    Types come from ``physicalType`` where it is one of ours, else from ``logicalType``. Keys, required properties,
    accepted values, bounds, lengths and patterns are taken, and checks by SQL of the form that ``frazil export odcs``
    writes. What is left out stands in comments, and so does what is guessed.

    Args:
        path: the contract, YAML or JSON.
        name: of the pipeline.

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
        f"# From {path.name}. Say where the changes come from, and look the comments through, before the first run.",
        f"pipeline: {_flow(name)}",
        "lake: {warehouse: ./lake}",
        "tables:",
    ]
    return "\n".join([*lines, *(line for one in found for line in _table(one))]) + "\n"


def _table(one: dict[str, Any]) -> Iterator[str]:
    name = re.sub(r"\W", "_", f"{one.get('name')}".lower(), flags=re.ASCII)
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
    if rules:
        yield "    rules:"
        yield from (f"      - {_flow(rule)}" for rule in rules)
    if left:
        yield f"    # not taken: {', '.join(left)}"


def _column(item: dict[str, Any], *, is_key: bool) -> tuple[dict[str, Any], list[str]]:
    """Return a column, and names of what was left out."""
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
        if found and check.get("mustBe") == 0:
            rule = {"name": re.sub(r"\W", "_", name.lower(), flags=re.ASCII), "expr": found[1]}
            rules.append(rule | ({"on_violation": "warn"} if check.get("severity") == "warning" else {}))
        else:
            left.append(name)
    return rules, left


def _flow(value: object) -> str:
    """Write a value on one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.removesuffix("...\n").strip()
