"""Tables drawn with bars."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.testing import draw, parse

TYPES = {"id": "int", "name": "string", "paid": "boolean"}


def test_a_table_is_drawn_with_bars_and_its_columns_in_line() -> None:
    rows = [{"id": 1, "name": "ada", "paid": True}, {"id": 10, "name": "", "paid": None}]

    drawing = draw(rows, TYPES)

    assert drawing == '1  | ada | true\n10 | ""  | -'
    assert parse(drawing, TYPES) == rows


def test_every_type_reads_back() -> None:
    types = {
        "a": "bigint",
        "b": "double",
        "c": "decimal(12,2)",
        "d": "date",
        "e": "timestamp",
        "f": "boolean",
    }
    row = {
        "a": 2**40,
        "b": 0.5,
        "c": Decimal("9.90"),
        "d": date(2026, 1, 1),
        "e": datetime(2026, 1, 1, 12, tzinfo=UTC),
        "f": False,
    }

    assert parse(draw([row], types), types) == [row]
    assert parse("1 | 1 | 1 | - | 2026-01-01 12:00 | -", types)[0]["e"] == row["e"]


def test_a_line_with_too_many_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        parse("1 | ada | true | more", TYPES)


def test_no_rows_are_an_empty_drawing() -> None:
    assert draw([], TYPES) == ""
    assert parse("", TYPES) == []


@given(texts=st.lists(st.none() | st.text(st.characters(codec="utf-8")), min_size=1))
def test_any_text_reads_back(texts: list[str | None]) -> None:
    rows = [{"id": number, "name": text, "paid": None} for number, text in enumerate(texts)]

    assert parse(draw(rows, TYPES), TYPES) == rows
