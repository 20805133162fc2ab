"""Parsing any declaration gives a pipeline or problems, never another error."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any, Final

import pytest

from frazil.errors import DeclarationProblems
from frazil.spec import Pipeline
from frazil.spec.load.parse import parse_declaration

TABLE: Final = {
    "name": "hosts",
    "source": {"kind": "dms", "path": "landing", "header": True, "change_seq": "seq"},
    "keys": ["id"],
    "sequence_by": ["ts"],
    "columns": [{"name": "id", "type": "int"}, {"name": "ts", "type": "timestamp", "expr": "a"}, "*"],
    "marts": [{"kind": "current", "partition_by": ["day(ts)"]}, {"kind": "history", "deletes": "mark"}],
    "max_bad_fraction": 0.5,
}
WHOLE: Final = {
    "pipeline": "shop",
    "lake": {"warehouse": "lake", "catalog": {"type": "jdbc", "uri": "jdbc:x", "properties": {"a": "b"}}},
    "tables": [TABLE, {**TABLE, "name": "guests"}],
    "gold": [{"name": "n", "sql": "select 1 as one from {{ hosts }}"}],
    "upkeep": {"retain_last": 3},
}
JUNK: Final[tuple[Any, ...]] = (
    None,
    5,
    -1,
    True,
    "x",
    "",
    [],
    {},
    [1],
    {"a": 1},
    [None],
    [[]],
    "*",
    "${x}",
    1.5,
    {"kind": {}},
)


def spoil(value: Any, chance: random.Random) -> None:
    """Replace, remove or rename one entry somewhere below."""
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    place = chance.choice(places)
    if isinstance(value[place], dict | list) and value[place] and chance.random() < 0.8:
        spoil(value[place], chance)
    elif chance.random() < 0.6:
        value[place] = deepcopy(chance.choice(JUNK))
    elif chance.random() < 0.5 or isinstance(value, list):
        del value[place]
    else:
        value[f"{place}s"] = value.pop(place)


def answer(text: str) -> Pipeline | tuple[str, ...]:
    try:
        return parse_declaration(text)
    except DeclarationProblems as error:
        return error.problems


def test_the_whole_declaration_is_right() -> None:
    assert isinstance(answer(json.dumps(WHOLE)), Pipeline)


@pytest.mark.parametrize("seed", range(300))
def test_any_mistake_is_reported_in_lines_with_a_place(seed: int) -> None:
    chance, spoilt = random.Random(seed), deepcopy(WHOLE)
    for _ in range(1 + seed % 3):
        spoil(spoilt, chance)

    problems = answer(json.dumps(spoilt))

    if isinstance(problems, Pipeline):
        # What was spoilt may go without saying: then what is left is a whole declaration.
        assert answer(problems.model_dump_json(exclude_unset=True)) == problems
    else:
        assert problems
        assert all(line.startswith("frazil.yml:1:") and "\n" not in line for line in problems)
        assert not any(" is wrong: " in line for line in problems)


@pytest.mark.parametrize("seed", range(50))
def test_text_with_holes_is_reported_too(seed: int) -> None:
    chance, text = random.Random(seed), json.dumps(WHOLE, indent=1)

    problems = answer("".join(sign for sign in text if chance.random() > 0.005))

    assert problems
