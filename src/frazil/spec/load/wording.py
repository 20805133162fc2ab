"""Translate pydantic's errors to plain English, with the nearest known setting or value.

Errors with one likely meaning are corrected, so that a misspelt name does not hide other problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

from frazil.spec.load.problem import Problem, child, nearest, suggestion
from frazil.spec.model.pipeline import Pipeline
from frazil.spec.secrets import is_secret_name

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from frazil.spec.load.problem import Path

_KINDS = ("kind", "type")
"""Settings that choose between several models of a value."""


_NEEDS = {
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "model_type": "must be a group of settings (name: value)",
    "model_attributes_type": "must be a group of settings (name: value)",
    "dict_type": "must be a group of settings (name: value)",
    "too_short": "is empty; it needs at least one entry",
    "string_too_short": "is empty",
    "string_too_long": "is longer than {max_length} character",
    "greater_than_equal": "is {value}; it must be {ge} or more",
    "greater_than": "is {value}; it must be more than {gt}",
    "less_than_equal": "is {value}; it must be {le} or less",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
}
"""pydantic's type of an error -> the message for it."""


@dataclass(frozen=True, slots=True)
class LikelyFix:
    """A problem and its most likely correction.

    Attributes:
        problem: the problem; its path may end with an unknown setting.
        rename: the known setting that an unknown one most likely means; None removes the setting.
        value: the known value that a wrong one most likely means, or None.
        kind: pydantic's type of the error.
    """

    problem: Problem
    kind: str
    rename: str | None = None
    value: str | None = None


def findings(errors: list[ErrorDetails], data: object) -> list[LikelyFix]:
    """Translate pydantic's errors of validating ``data``."""
    placed = [(error, _path(error["loc"], data)) for error in errors]
    # pydantic also reports a list as too short if all of its entries are wrong.
    found = [
        _finding(error, path, data) for error, path in placed if error["type"] != "too_short" or not _value(path, data)
    ]
    misspelt = {(*one.problem.path[:-1], one.rename) for one in found if one.rename is not None}
    return [one for one in found if one.kind != "missing" or one.problem.path not in misspelt]


def _path(loc: tuple[int | str, ...], data: object) -> Path:
    """Return pydantic's location without the parts that are not in the data, such as the kind of a union."""
    path: list[int | str] = []
    at = data
    for step, part in enumerate(loc):
        chosen = isinstance(at, dict) and part not in at and step < len(loc) - 1
        if chosen or (isinstance(part, str) and not isinstance(at, dict)):
            continue
        path.append(part)
        at = child(at, part)
    return tuple(path)


def _finding(error: ErrorDetails, path: Path, data: object) -> LikelyFix:
    kind, context = error["type"], error.get("ctx", {})
    whose = _whose(path[:-1], data)
    name = _setting(path)
    match kind:
        case "extra_forbidden":
            known = _known_settings(path[:-1], data)
            group = _group_with(str(path[-1]), path[:-1], data)
            hint = f"it is a setting of '{group}'" if group else suggestion(str(path[-1]), known)
            found = Problem(path, f"unknown setting '{path[-1]}' of {whose}", hint)
            return LikelyFix(found, kind, rename=None if group else nearest(str(path[-1]), known))
        case "missing":
            return LikelyFix(Problem(path, f"{whose} has no '{path[-1]}'"), kind)
        case "literal_error" | "union_tag_invalid":
            allowed = str(context.get("expected") or context.get("expected_tags"))
            choices = [choice.strip("' ") for choice in allowed.replace(" or ", ", ").split(", ")]
            if kind == "union_tag_invalid":
                tag = str(context["discriminator"]).strip("'")
                path, whose = (*path, tag), _whose(path, data)
                name = tag
            given = str(_value(path, data))
            found = Problem(path, f"{name} of {whose} is '{given}'", _choice(given, choices))
            return LikelyFix(found, kind, value=nearest(given, choices))
        case "union_tag_not_found":
            tag = str(context["discriminator"]).strip("'")
            choices = [name for shape in _shapes(path, data) for name in get_args(shape.model_fields[tag].annotation)]
            found = Problem(path, f"{_whose(path, data)} does not say its {tag}", f"it must be {' or '.join(choices)}")
            return LikelyFix(found, kind)
        case _:
            return LikelyFix(Problem(path, f"{_what(path, data)} {_must(error, path, data)}"), kind)


def _what(path: Path, data: object) -> str:
    """Describe a setting, or an entry of a list."""
    match path:
        case (*around, str(name), int(index)):
            return f"entry {index + 1} of '{name}' of {_whose(tuple(around), data)}"
        case (*around, name):
            return f"'{name}' of {_whose(tuple(around), data)}"
        case _:
            return "the declaration"


def _must(error: ErrorDetails, path: Path, data: object) -> str:
    kind, value = error["type"], _value(path, data)
    if value is None and kind not in {"too_short", "string_too_short"}:
        return "is empty"
    if kind == "string_type":
        return _must_be_text(path, value)
    if kind in {"tuple_type", "list_type"} and isinstance(value, str):
        return f"must be a list; write [{value}]"
    if kind in _NEEDS:
        return _NEEDS[kind].format(value=value, **error.get("ctx", {}))
    return f"is wrong: {error['msg'][:1].lower()}{error['msg'][1:]}"


def _must_be_text(path: Path, value: object) -> str:
    # Messages never show a password, even one written as a number.
    if isinstance(value, dict | list) or any(is_secret_name(str(part)) for part in path):
        return "must be text"
    return f'must be text; put it in quotes: "{str(value).lower() if isinstance(value, bool) else value}"'


def _choice(given: str, choices: list[str]) -> str:
    near = nearest(given, choices)
    return f"did you mean '{near}'?" if near else f"it must be {' or '.join(choices)}"


def _value(path: Path, data: object) -> object:
    for part in path:
        data = child(data, part)
    return data


def _setting(path: Path) -> str:
    names = [part for part in path if isinstance(part, str)]
    return names[-1] if names else ""


def _whose(path: Path, data: object) -> str:
    """Describe the owner of the settings at a path, such as a table or the lake."""
    match path:
        case ():
            return "the pipeline"
        case ("tables" | "gold" as part, int(index), *rest):
            word = "table" if part == "tables" else "gold"
            name = _value((part, index, "name"), data)
            owner = f"{word} '{name}'" if isinstance(name, str) else f"{word} {index + 1}"
            return f"{_part(tuple(rest), _value((part, index), data))}{owner}"
        case ("lake", *rest):
            return "the lake's " + " ".join(map(str, rest)) if rest else "the lake"
        case _:
            return f"the {' '.join(str(part) for part in path)}"


def _part(path: Path, table: object) -> str:
    match path:
        case ("columns", int(index), *_):
            name = _value(("columns", index, "name"), table)
            return f"column '{name}' of " if isinstance(name, str) else f"column {index + 1} of "
        case ("marts", int(index), *_):
            kind = _value(("marts", index, "kind"), table)
            return f"the {kind} mart of " if kind in ("current", "history") else f"mart {index + 1} of "
        case ("source", *_):
            return "the source of "
        case _:
            return ""


def _known_settings(path: Path, data: object) -> list[str]:
    """Return the settings that are allowed at a path; its kind selects among several models."""
    return list(_shape(path, data).model_fields)


def _shape(path: Path, data: object) -> type[BaseModel]:
    shapes = _shapes(path, data)
    return next((shape for shape in shapes if _is_kind(shape, _value(path, data))), shapes[0])


def _group_with(name: str, path: Path, data: object) -> str | None:
    """Return the setting at a path whose own settings include ``name``, such as ``evolution``; None without one."""
    for group, field in _shape(path, data).model_fields.items():
        models = _models((field.annotation, *field.metadata))
        chosen = [model for model in models if _is_kind(model, _value((*path, group), data))]
        if any(name in model.model_fields for model in chosen or models):
            return group
    return None


def _shapes(path: Path, data: object) -> list[type[BaseModel]]:
    """Return the models that a group of settings at a path can have."""
    shapes: list[type[BaseModel]] = [Pipeline]
    at = data
    is_named = False
    for part in path:
        chosen = next((shape for shape in shapes if _is_kind(shape, at)), shapes[0])
        at = child(at, part)
        if is_named:  # the user's own name of one of several groups
            is_named = False
        elif isinstance(part, str):
            field = chosen.model_fields[part]
            is_named = get_origin(field.annotation) is dict
            shapes = _models((field.annotation, *field.metadata))
    return shapes


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, tuple):
        return [model for part in annotation for model in _models(part)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return _models(get_args(annotation))


def _is_kind(model: type[BaseModel], data: object) -> bool:
    """Return whether the kind in the data selects this model."""
    for name in _KINDS:
        if name in model.model_fields and isinstance(data, dict) and name in data:
            return data[name] in get_args(model.model_fields[name].annotation)
    return False
