"""Columns of JSON objects are taken apart exactly as one object after the other would be."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.json_lines import NoObjectError, object_fields
from frazil.formats.json_objects import JsonObjects

NAMES = st.sampled_from(["id", "Name", "qty", "a b", 'q"', "ü", ""])
NUMBERS = st.sampled_from(["0", "-1", "9007199254740993", "10.50", "1e3", "1E-2", "-0.0", "123456789012345678901.25"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(["null", "{", "}, ", '"', "\\"])
BLANKS = st.sampled_from(["", " ", "\n "])
NESTED = st.sampled_from(['{"x": 1.50}', "[1, null]", "{}", '["}"]'])
WRONG = (
    "",
    "[]",
    "1",
    "{",
    '{"a": 01}',
    '{"a": 1,}',
    '{"a": 1} x',
    '{"a": .5}',
    '{"a": "\t"}',
    '{"a": 1, "A": 2}',
    "null",
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """An object in any form that JSON allows, or another text."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(WRONG))
    blank = draw(BLANKS)
    value = NUMBERS | st.sampled_from(["null", "true", "false"]) | NESTED | TEXTS.map(json.dumps)
    fields = [f"{blank}{json.dumps(name)}:{blank}{draw(value)}{blank}" for name in draw(st.lists(NAMES, max_size=4))]
    return f"{blank}{{{','.join(fields)}}}{blank}"


def alone(document: str | None) -> dict[str, str | None] | None:
    try:
        return None if document is None else dict(object_fields(document))
    except NoObjectError:
        return None


def together(texts: list[str | None]) -> list[dict[str, str | None] | None]:
    found = JsonObjects(str).split(pa.array(texts, pa.string()))
    shapes = [found.shapes[number] for number in found.shape_of.to_pylist()] if texts else []
    problems = [None] * len(texts) if found.problems is None else found.problems.to_pylist()
    rows: list[dict[str, str | None] | None] = []
    for at, (text, shape) in enumerate(zip(texts, shapes, strict=True)):
        row = {name: found.columns[name][at].as_py() for name in shape}
        rows.append(None if text is None or problems[at] is not None else row)
    return rows


@given(st.lists(st.none() | documents(), max_size=12))
def test_objects_in_a_column_are_those_that_each_text_is(texts: list[str | None]) -> None:
    assert together(texts) == [alone(text) for text in texts]


@given(st.lists(documents(), min_size=1, max_size=3).flatmap(lambda few: st.lists(st.sampled_from(few), max_size=20)))
def test_objects_of_few_shapes_are_those_that_each_text_is(texts: list[str | None]) -> None:
    assert together(texts) == [alone(text) for text in texts]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("9007199254740993", "9007199254740993"),
        ("10.50", "10.50"),
        ('"10.50"', "10.50"),
        ('"\\u0041\\n"', "A\n"),
        ('"null"', "null"),
        ("null", None),
        ('""', ""),
        ('{"b": [1.0, "x"]}', '{"b": [1.0, "x"]}'),
    ],
)
def test_a_value_is_the_text_it_was(value: str, text: str | None) -> None:
    assert together([f'{{"a": {value}}}']) == [{"a": text}]


@pytest.mark.parametrize("text", [*WRONG, '{"a": "\\ud800"}', '{"a": NaN}', '{"a": {"b": 1}'])
def test_a_text_other_than_an_object_has_a_reason(text: str) -> None:
    found = JsonObjects(str).split(pa.array([text, '{"a": 1}']))

    assert found.problems[0].as_py().startswith("malformed_json: ")
    assert found.problems[1].as_py() is None


def test_two_fields_of_one_column_are_named_twice() -> None:
    def column_of(_: str) -> str:
        return "same"

    found: Any = JsonObjects(column_of).split(pa.array(['{"a": 1, "b": 2}']))

    assert found.problems.to_pylist() == ["malformed_json: a field is named twice"]


def test_many_shapes_are_read() -> None:
    texts = [json.dumps({f"f{number % 200}": number, "id": number}) for number in range(1000)]

    assert together([*texts]) == [alone(text) for text in texts]


def test_a_part_of_a_column_is_taken_apart_like_a_whole_one() -> None:
    texts = pa.array(["no object", '{"a": "ü", "b": 1.50}', '{"a": null, "b": ""}', '{"a": "null", "b": null}', None])

    found = JsonObjects(str).split(texts.slice(1, 3))

    assert found.columns["a"].to_pylist() == ["ü", None, "null"]
    assert found.columns["b"].to_pylist() == ["1.50", "", None]


def test_objects_of_very_many_fields_are_taken_apart_too() -> None:
    text = json.dumps({f"field_{number}": number for number in range(3000)})

    assert together([text, text]) == [alone(text)] * 2


@given(st.lists(documents() | st.none(), max_size=8))
def test_objects_that_were_seen_are_not_matched_again(texts: list[str | None]) -> None:
    seen = JsonObjects(str)
    for text in texts:
        seen.columns_of(pa.array([text], pa.string()))

    again = JsonObjects(str, seen.written).split(pa.array(texts, pa.string()))

    first = JsonObjects(str).split(pa.array(texts, pa.string()))
    assert (again.columns, again.shapes, again.shape_of) == (first.columns, first.shapes, first.shape_of)


@pytest.mark.parametrize(
    ("texts", "is_written"),
    [
        (['{"a": 1, "b": "x"}', '{"a": null, "b": "y"}', None], True),
        (['{"a": 1}', '{"b": 1}'], False),
        (['{"a": 1}', '{"a":1}'], False),
        (['{"a": 1}', '{"a": [1]}'], False),
        (['{"a": 1}', '{"a": "\\n"}'], False),
        (['{"a": 1}', "{"], False),
        ([], False),
    ],
)
def test_what_is_written_alike_is_known_after_all_of_it_was_seen(texts: list[str | None], is_written: bool) -> None:  # noqa: FBT001
    seen = JsonObjects(str)
    for text in texts:
        seen.columns_of(pa.array([text], pa.string()))

    assert bool(seen.written) == is_written
    assert seen.written in ((), ('{"a": ', ', "b": ', "}"))


@given(st.lists(documents(), min_size=1, max_size=4))
def test_objects_that_are_not_as_they_were_seen_are_matched(texts: list[str]) -> None:
    """A file that is written while it is read must not end the process."""
    written = ('{"a": ', ', "b": ', "}")

    found = JsonObjects(str, written).split(pa.array(texts))

    # What is in them does not count: a file that changed while it was read is refused (FZ202).
    assert {len(values) for values in (*found.columns.values(), found.shape_of)} == {len(texts)}


def test_another_object_than_those_seen_is_taken_apart() -> None:
    found = JsonObjects(str, ('{"a": ', "}")).split(pa.array(['{"b": "1", "c": 2}']))

    assert {name: values.to_pylist() for name, values in found.columns.items()} == {"b": ["1"], "c": ["2"]}
