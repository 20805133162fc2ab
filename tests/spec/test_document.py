from __future__ import annotations

import pytest

from frazil.spec.load.document import MAX_DEPTH, read_document

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(9)
)
MERGE_LAUGHS = "a: &a {x: 1}\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} {{<<: [{', '.join(['*' + chr(97 + n)] * 10)}]}}\n" for n in range(9)
)


def test_every_entry_knows_where_it_stands() -> None:
    document = read_document("a: 1\nb:\n  - {c: x}\n  - y\n")

    assert document.data == {"a": 1, "b": [{"c": "x"}, "y"]}
    assert document.key_place(("b",)) == (2, 1)
    assert document.place(("b", 0, "c")) == (3, 9)
    assert document.place(("b", 1)) == (4, 5)


def test_what_is_not_written_down_stands_where_it_would_belong() -> None:
    document = read_document("a: 1\nb:\n  - {c: x}\n")

    assert document.place(("b", 0, "missing", 7)) == (3, 5)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("NULL", None),
        ("'NULL'", "NULL"),
        ("12", 12),
        ("012", "012"),
        ("'12'", "12"),
        ("1.5", 1.5),
        ("2024-01-02", "2024-01-02"),
        ("12:30", "12:30"),
        ("${env:X}", "${env:X}"),
    ],
)
def test_a_scalar_means_what_it_looks_like(text: str, value: object) -> None:
    assert read_document(f"a: {text}").data == {"a": value}


def test_a_merge_key_gives_defaults_that_the_mapping_overrides() -> None:
    document = read_document("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n")

    assert document.data == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}


def test_a_repeated_setting_is_a_problem_that_names_the_first() -> None:
    document = read_document("a: 1\nb: 2\na: 3\n")

    assert document.problems == [((3, 1), "setting 'a' is written twice, first in line 1")]
    assert document.data == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: !!python/object/apply:os.system [x]", (1, 4), "tags"),
        ("a: 1\n---\nb: 2", (2, 1), "second YAML document"),
        ("a: *b", (1, 4), "no complete anchor"),
        ("a: &a [*a]", (1, 8), "no complete anchor"),
        ("? [a]\n: 1", (1, 3), "must be text"),
        ("a: [1", (2, 1), "not YAML"),
        ("a:\n\t- b", (2, 1), "not YAML"),
        ("a: \x00", (1, 1), "not YAML"),
        ("a: {<<: 5}", (1, 9), "takes a mapping"),
        (LAUGHS, (6, 4), "aliases add more than"),
        (MERGE_LAUGHS, None, "<< is nested deeper"),
        ("[" * 200_000, (1, MAX_DEPTH + 1), "nested deeper"),
        ("a: " + "x" * 5_000_000, (1, 1), "larger than"),
    ],
)
def test_what_a_declaration_does_not_need_of_yaml_is_refused(
    text: str, place: tuple[int, int] | None, message: str
) -> None:
    document = read_document(text)

    [(found_place, found)] = document.problems
    assert document.data is None
    assert message in found
    assert place in {None, found_place}


def test_a_long_text_without_aliases_is_read() -> None:
    entries = 210_000

    document = read_document(f"a: [{', '.join(['1'] * entries)}]")

    assert (document.problems, document.data) == ([], {"a": [1] * entries})
