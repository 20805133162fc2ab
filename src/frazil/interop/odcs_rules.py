"""Conversion of rules of whole marts to and from the Open Data Contract Standard (ODCS).

The standard has checks of ``duplicateValues`` and ``rowCount``, relationships, and an agreed ``latency``. They apply to
all rows of an object. Rules of a mart with deleted rows or old versions are therefore custom checks, and so are rules
that the standard does not have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from frazil.spec.model.column import TABLE_RULES, Age, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from frazil.interop.contracts import MartContract, MartRule

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*")
"""Names that a relationship may use."""

_UNITS: Final = {"minute": "m", "hour": "h", "day": "d"}
_PERIODS: Final = {
    **dict.fromkeys(("m", "min", "minute", "minutes"), "minute"),
    **dict.fromkeys(("h", "hr", "hour", "hours"), "hour"),
    **dict.fromkeys(("d", "day", "days"), "day"),
}
_ENGINE: Final = "frazil"


def checks_of(one: MartContract) -> list[dict[str, Any]]:
    """Return the checks of an object, without those of its properties."""
    found = []
    for own in one.mart_rules:
        rule = own.rule
        if not one.has_living_rows or (rule.references is not None and not _is_named(own)):
            found.append(_custom(rule))
        elif rule.unique is not None and len(rule.unique) > 1:
            found.append(_duplicates(rule) | {"arguments": {"properties": [*rule.unique]}})
        elif rule.row_count is not None:
            found.append(_rows(rule))
    return found


def checks_of_property(one: MartContract, name: str) -> list[dict[str, Any]]:
    """Return the checks of one property: uniqueness of its values."""
    return [_duplicates(own.rule) for own in one.mart_rules if one.has_living_rows and own.rule.unique == (name,)]


def relationships_of(one: MartContract) -> list[dict[str, Any]]:
    """Return the relationships of an object."""
    found = []
    for own in one.mart_rules:
        rule = own.rule
        if rule.references is None or not one.has_living_rows or not _is_named(own):
            continue
        ends = [f"{one.table.name}.{name}" for name in rule.references.columns]
        others = [f"{rule.references.to}.{name}" for name in own.fields]
        single = len(ends) == 1
        custom = [{"property": "name", "value": rule.name}, {"property": "severity", "value": _severity(rule)}]
        found.append(
            {
                "type": "foreignKey",
                "from": ends[0] if single else ends,
                "to": others[0] if single else others,
                "customProperties": custom,
            }
        )
    return found


def agreed_of(one: MartContract) -> list[dict[str, Any]]:
    """Return the agreed ``latency`` of an object."""
    found = []
    for own in one.mart_rules:
        fresh = own.rule.freshness
        if fresh is None or not one.has_living_rows:
            continue
        element = one.table.name if fresh.column is None else f"{one.table.name}.{fresh.column}"
        for age, severity in ((fresh.error_after, "error"), (fresh.warn_after, "warning")):
            if age is not None:
                custom = [{"property": "name", "value": own.rule.name}, {"property": "severity", "value": severity}]
                latency = {"property": "latency", "value": age.count, "unit": _UNITS[age.period], "element": element}
                found.append(latency | {"customProperties": custom})
    return found


def _is_named(own: MartRule) -> bool:
    """Return whether a relationship can name the columns, and the other mart has living rows only."""
    reference = own.rule.references
    names = () if reference is None else (*reference.columns, *own.fields)
    return own.is_exact and all(map(_NAME.fullmatch, names))


def _duplicates(rule: Rule) -> dict[str, Any]:
    return {"metric": "duplicateValues", "name": rule.name, "mustBe": 0, "severity": _severity(rule)}


def _rows(rule: Rule) -> dict[str, Any]:
    bounds = rule.row_count
    if bounds is None or bounds.max_decrease_fraction is not None or bounds.max_increase_fraction is not None:
        return _custom(rule)
    check = {"metric": "rowCount", "name": rule.name, "severity": _severity(rule)}
    if bounds.min is not None and bounds.max is not None:
        return check | (
            {"mustBe": bounds.min} if bounds.min == bounds.max else {"mustBeBetween": [bounds.min, bounds.max]}
        )
    if bounds.min is not None:
        return check | {"mustBeGreaterOrEqualTo": bounds.min}
    return check | {"mustBeLessOrEqualTo": bounds.max}


def _custom(rule: Rule) -> dict[str, Any]:
    values = rule.model_dump(mode="json", exclude_unset=True, include={*TABLE_RULES})
    return {
        "type": "custom",
        "name": rule.name,
        "engine": _ENGINE,
        "implementation": values,
        "severity": _severity(rule),
    }


def _severity(rule: Rule) -> str:
    return "warning" if rule.on_violation == "warn" else "error"


def rule_of_check(check: dict[str, Any], column: str | None = None) -> dict[str, Any] | None:
    """Return the rule for a check of an object or of one of its properties; None without such a rule."""
    name, metric = f"{check.get('name') or ''}", check.get("metric")
    if check.get("engine") == _ENGINE and isinstance(check.get("implementation"), dict):
        return _rule(name, check["implementation"], check.get("severity"))
    if metric == "duplicateValues" and check.get("mustBe") == 0:
        columns = (check.get("arguments") or {}).get("properties") or ([column] if column else [])
        kind = {"unique": [*columns]} if columns else None
        return kind and _rule(name or f"unique_{'_'.join(columns)}", kind, check.get("severity"))
    if metric == "rowCount" and column is None and (bounds := _bounds(check)):
        return _rule(name or "rows", {"row_count": bounds}, check.get("severity"))
    return None


def _bounds(check: dict[str, Any]) -> dict[str, int]:
    bounds: dict[str, Any] = {}
    match check:
        case {"mustBe": int(number)}:
            bounds = {"min": number, "max": number}
        case {"mustBeBetween": [int(low), int(high)]}:
            bounds = {"min": low, "max": high}
        case {"mustBeGreaterOrEqualTo": int(number)}:
            bounds = {"min": number}
        case {"mustBeGreaterThan": int(number)}:
            bounds = {"min": number + 1}
        case {"mustBeLessOrEqualTo": int(number)}:
            bounds = {"max": number}
        case {"mustBeLessThan": int(number)}:
            bounds = {"max": number - 1}
    return bounds if all(bound >= 0 for bound in bounds.values()) else {}


def rules_of_relationships(one: dict[str, Any], known: dict[str, str]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield the target of each relationship of an object with its rule; None if it cannot be a rule.

    Args:
        one: the object.
        known: name of each object of the contract -> name of its table.
    """
    own = [(given.get("from"), given) for given in one.get("relationships") or ()]
    for item in one.get("properties") or ():
        own += [(f"{one['name']}.{item.get('name')}", given) for given in item.get("relationships") or ()]
    for ends, given in own:
        columns, others = _listed(ends), _listed(given.get("to"))
        said = f"relationship to {', '.join(others)}"
        tables = {name.rpartition(".")[0] for name in others}
        objects = {name.rpartition(".")[0] for name in columns}
        if len(tables) != 1 or not tables <= known.keys() or not objects <= {one["name"], ""}:
            yield said, None
            continue
        custom = {item.get("property"): item.get("value") for item in given.get("customProperties") or ()}
        short, fields = ([name.rpartition(".")[2] for name in names] for names in (columns, others))
        kind = {"references": {"columns": short, "to": known[next(iter(tables))], "fields": fields}}
        yield said, _rule(f"{custom.get('name') or '_'.join(['refers', *short])}", kind, custom.get("severity"))


def rules_of_agreed(agreed: Iterable[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """Yield the freshness rules of an object, from its agreed ``latency``."""
    rules: dict[str, dict[str, Any]] = {}
    for one in agreed:
        table, _, column = f"{one.get('element') or ''}".partition(".")
        period, count = _PERIODS.get(f"{one.get('unit')}"), one.get("value")
        if one.get("property") != "latency" or table != name or period is None or not isinstance(count, int):
            continue
        custom = {item.get("property"): item.get("value") for item in one.get("customProperties") or ()}
        which = "warn_after" if custom.get("severity") == "warning" else "error_after"
        said = f"{custom.get('name') or '_'.join(filter(None, ['fresh', column]))}"
        fresh = rules.setdefault(said, _rule(said, {"freshness": {"column": column} if column else {}}))
        fresh["freshness"][which] = Age(count=count, period=period).model_dump()  # type: ignore[arg-type]
    yield from rules.values()


def _listed(names: object) -> list[str]:
    return [f"{name}" for name in names] if isinstance(names, list) else [f"{names}"]


def _rule(name: str, kind: dict[str, Any], severity: object = None) -> dict[str, Any]:
    rule = {"name": re.sub(r"\W", "_", name.lower(), flags=re.ASCII), **kind}
    return rule | ({"on_violation": "warn"} if severity == "warning" and "freshness" not in kind else {})


def valid(rules: Sequence[dict[str, Any]]) -> bool:
    """Return whether a declaration accepts the rules."""
    try:
        [Rule.model_validate(rule) for rule in rules]
    except ValueError:
        return False
    return True
