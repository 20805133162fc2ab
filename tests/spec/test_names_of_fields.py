"""Names that a declaration gives to fields of CSV and Debezium, and what cannot be meant by them."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.spec import Column, Debezium, DmsFiles, Table

COLUMNS = tuple(Column(name=name) for name in ("id", "name", "n"))


def said(**source: Any) -> list[str]:
    files = DmsFiles(path=("in",), **source)
    return [
        problem.message for problem in files.problems(Table(name="t", source=files, keys=("id",), columns=COLUMNS), ())
    ]


def test_names_and_other_fields_have_their_uses() -> None:
    assert said(header=True, names={"ID": "id_2"}) == []
    assert said(fields=("id", "name", "n"), other_fields=(("id", "n"), ("id",))) == []


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"names": {"ID": "id_2"}}, "names in the source of table 't' has no use"),
        ({"header": True, "other_fields": (("id",),)}, "applies only to fields"),
        ({"fields": ("id", "name", "n"), "other_fields": (("id", "m"),)}, "names 'm', which is not one of fields"),
        ({"fields": ("id", "name", "n"), "other_fields": (("id", "n"), ("id", "name"))}, "lists of different lengths"),
        ({"header": True, "encoding": "utf-16"}, "'utf-16', which cannot be read"),
        ({"header": True, "encoding": "latin-99"}, "'latin-99', which cannot be read"),
        ({"fields": ("id", "name", "n"), "other_fields": (("n", "name", "id"),)}, "lists of different lengths"),
    ],
)
def test_names_without_a_use_are_problems(source: dict[str, Any], told: str) -> None:
    assert [told in message for message in said(**source)] == [True]


def test_a_field_outside_the_columns_may_keep_its_spelling() -> None:
    source = Debezium(path=("in",), encodings={"until": "text", "untl": "date"})
    table = Table(name="t", source=source, keys=("id",), columns=COLUMNS)

    assert [problem.path for problem in source.problems(table, ())] == [("encodings", "untl")]
