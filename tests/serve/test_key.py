"""The story of one key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.serve.key import explain_key
from frazil.serve.query.query import QueryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.serve.conftest import Shop

pytestmark = pytest.mark.spark


def test_changes_of_a_key_are_in_order_with_their_outcome(shop: Shop) -> None:
    story = explain_key(shop.pipeline, "items", ["1"])

    assert [(f"{change.values['price']}", change.batch, change.marks) for change in story.changes] == [
        ("1.10", 1, ("superseded",)),
        ("1.30", 2, ("superseded", "late")),
        ("1.50", 1, ("superseded",)),
        ("1.50", 2, ("winner", "repeated")),
    ]
    assert [(record.file, record.row, record.op) for record in story.records] == [
        ("landing/LOAD00000001.csv", 1, "I"),
        ("landing/20260102-000000001.csv", 1, "U"),
        ("landing/20260103-000000001.csv", 1, "U"),
        ("landing/20260103-000000001.csv", 2, "U"),
    ]


def test_each_mart_shows_its_rows(shop: Shop) -> None:
    story = explain_key(shop.pipeline, "items", ["1"])

    assert {name: [f"{row['price']}" for row in rows] for name, rows in story.marts.items()} == {
        "marts.items": ["1.50"],
        "marts.items_all": ["1.50"],
        "marts.items_history": ["1.10", "1.30", "1.50"],
        "marts.items_marked": ["1.10", "1.30", "1.50"],
    }


def test_a_deleted_key_ends_with_its_delete(shop: Shop) -> None:
    story = explain_key(shop.pipeline, "items", ["2"])

    assert [change.marks for change in story.changes] == [("superseded",), ("winner", "delete")]
    assert story.marts["marts.items"] == ()
    assert [row["is_deleted"] for row in story.marts["marts.items_all"]] == [True]


def test_a_quarantined_record_is_shown_with_its_reason(shop: Shop) -> None:
    story = explain_key(shop.pipeline, "items", ["4"])

    (record,) = story.records
    assert record.fields == {"id": "4", "ts": "2026-01-02 10:00:00", "name": "hail", "price": "four"}
    assert record.quarantine is not None
    assert (record.quarantine["rule"], record.quarantine["column"]) == ("cast", "price")
    assert story.changes == ()


@pytest.mark.parametrize("given", [["01"], {"id": "1"}, {"ID": " 1 "}, "1"])
def test_a_key_is_compared_as_a_typed_value(shop: Shop, given: Mapping[str, str] | Sequence[str]) -> None:
    assert len(explain_key(shop.pipeline, "marts.items_all", given).changes) == 4


def test_an_unknown_key_has_no_story(shop: Shop) -> None:
    story = explain_key(shop.pipeline, "items", ["77"])

    assert (story.key, story.records, story.changes) == ({"id": 77}, (), ())


@pytest.mark.parametrize(
    ("given", "why"),
    [(["one"], "no integer"), (["1", "2"], "the key of table 'items' is id"), ({"name": "x"}, "is id")],
)
def test_a_key_of_other_columns_or_types_is_refused(
    shop: Shop, given: Mapping[str, str] | Sequence[str], why: str
) -> None:
    with pytest.raises(QueryError, match=why):
        explain_key(shop.pipeline, "items", given)
