"""Corrections that a form describes: the values they change, and those they leave byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.ui.pages.corrections import Replacement, typed_fields


def line(**record: str | None) -> dict[str, Any]:
    return {"file": "a.csv", "row": 1, "record": record}


@pytest.mark.parametrize(
    ("how", "old", "before", "after"),
    [
        ("part", ",", "1,5", "1.5"),
        ("whole", "", "1,5", "."),
        ("whole", "", None, "."),
        ("null", "", "n/a", None),
    ],
)
def test_one_correction_changes_a_field_of_many_records(
    how: str, old: str, before: str | None, after: str | None
) -> None:
    made = Replacement(field="PRICE", how=how, old=old, new=".").corrected(line(id="1", price=before))

    assert made == line(id="1", price=after)


@pytest.mark.parametrize(
    ("how", "old", "before"), [("part", ",", "1.5"), ("part", ",", None), ("part", "", "1"), ("null", "", None)]
)
def test_records_that_a_correction_leaves_as_they_are_are_not_written(how: str, old: str, before: str | None) -> None:
    change = Replacement(field="price", how=how, old=old, new=".")

    assert change.corrected(line(price=before)) is None
    assert change.corrected(line(id="1")) is None
    assert change.corrected({**line(), "record": None}) is None  # its fields could not be read


@pytest.mark.parametrize("text", ["two\nlines", "two\r\nlines", "old\rmac", "\nfirst", "nul \0", "half \ud800", ""])
def test_a_value_that_nobody_touched_keeps_its_bytes(text: str) -> None:
    """A browser sends CR LF at the end of each line, and no signs that HTML cannot hold."""
    shown = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd").replace("\r\n", "\n").replace("\r", "\n")
    form = {"value:a": shown.replace("\n", "\r\n"), "empty:a": "text"}

    assert typed_fields(form, {"a": text}) == {"a": text}


def test_an_empty_text_is_a_text_or_null_or_no_field_at_all() -> None:
    form = {f"value:{name}": "" for name in "abc"} | {"empty:a": "text", "empty:b": "null", "empty:c": "absent"}

    assert typed_fields(form, None) == {"a": "", "b": None}
    assert typed_fields({"value:d": "4", "empty:d": "null"}, {"d": None}) == {"d": "4"}  # a typed text counts
