"""Values of the lake as text for people."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from frazil.ui import text

NOW = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain ü 雪", "plain ü 雪"),
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("a\x00\x1b[31m", "a⟦U+0000⟧⟦U+001B⟧[31m"),
        ("\ud800", "⟦U+D800⟧"),
        ("a\nb\tc", "a⏎b⇥c"),
        ("", "''"),
        (b"\x00\xff", "00ff"),
        (dt.datetime(2026, 1, 2, 3, 4, 5, 120_000, tzinfo=dt.UTC), "2026-01-02 03:04:05.12"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (True, "true"),
    ],
)
def test_a_value_is_one_line_without_hostile_signs(value: Any, shown: str) -> None:
    assert text.value_text(value) == shown


def test_a_long_value_is_cut_and_says_how_long_it_is() -> None:
    assert text.value_text("x" * 5_000, 3) == "xxx… (5,000 characters)"


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0 s"), (59, "59 s"), (90, "1 min"), (7_200, "2 h"), (1e6, "11 d")])
def test_an_age_is_in_its_largest_unit(seconds: float, shown: str) -> None:
    assert text.age(NOW - dt.timedelta(seconds=seconds), NOW) == shown
