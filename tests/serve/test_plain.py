"""Values as JSON: exact, in UTC, and never a word that JSON does not have."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from frazil.serve.query.plain import json_text, plain

NOON = dt.datetime(2024, 2, 1, 12, tzinfo=dt.UTC)


@dataclass
class _Point:
    x: Decimal
    y: float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (9007199254740993, "9007199254740993"),
        (10**30, "1" + "0" * 30),
        (0.1, "0.1"),
        (float("nan"), '"NaN"'),
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
        (Decimal("12.50"), '"12.50"'),
        (Decimal("1E+3"), '"1000"'),
        (Decimal("0.00000001"), '"0.00000001"'),
        (dt.date(2024, 2, 1), '"2024-02-01"'),
        (dt.time(8, 30), '"08:30:00"'),
        (NOON, '"2024-02-01T12:00:00.000000Z"'),
        (NOON.astimezone(dt.timezone(dt.timedelta(hours=2))), '"2024-02-01T12:00:00.000000Z"'),
        (NOON.replace(tzinfo=None, microsecond=1), '"2024-02-01T12:00:00.000001"'),
        (b"\x00\xff", '"00ff"'),
        ("Zoë 🧊", '"Zoë 🧊"'),
        ([Decimal("1.0"), None], '["1.0", null]'),
        ({"a": NOON.date(), 1: "one"}, '{"a": "2024-02-01", "1": "one"}'),
        (_Point(Decimal("1.5"), float("nan")), '{"x": "1.5", "y": "NaN"}'),
        (dt.timedelta(days=1), '"1 day, 0:00:00"'),
    ],
)
def test_a_value_is_written_exactly(value: Any, text: str) -> None:
    assert json_text(value) == text


def test_what_is_written_can_be_read_by_any_reader() -> None:
    value = {"n": float("nan"), "nested": [{"at": NOON, "raw": b"x"}]}

    assert json.loads(json_text(value)) == plain(value)
