"""Differences of a mart between two points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frazil.iceberg.time_travel import PointError
from frazil.serve.query.diff import NotAMartError, diff
from frazil.serve.query.query import query

if TYPE_CHECKING:
    from tests.serve.conftest import Shop

pytestmark = pytest.mark.spark


@pytest.mark.laws
def test_a_history_that_a_late_change_splits_has_an_updated_and_an_inserted_version(undamaged_shop: Shop) -> None:
    found = diff(undamaged_shop.pipeline, "items_history", "batch:1", "batch:2")

    assert (found.inserted, found.updated, found.deleted) == (1, 1, 0)
    ended, split = found.rows
    assert (ended.change, split.change) == ("updated", "inserted")
    assert ended.old
    assert ended.new
    assert {name for name in found.columns if ended.old[name] != ended.new[name]} == {"valid_to"}
    assert split.old is None
    assert split.new
    assert ended.new["valid_to"] == split.key["valid_from"]
    assert f"{split.new['price']}" == "1.30"


def test_the_differences_turn_one_snapshot_into_the_other(undamaged_shop: Shop) -> None:
    """The rows of the first, with the differences applied, are those of the second; backwards too."""
    for mart, keys in (("items_all", ("id",)), ("items_history", ("id", "valid_from"))):
        for begin, end in (("batch:1", "batch:2"), ("batch:2", "batch:1"), ("batch:2", "batch:2")):
            found = diff(undamaged_shop.pipeline, mart, begin, end)

            rows = content(undamaged_shop, mart, keys, begin)
            for row in found.rows:
                key = tuple(row.key.values())
                assert rows.pop(key, None) == row.old
                rows |= {key: row.new} if row.new is not None else {}

            assert rows == content(undamaged_shop, mart, keys, end)
            assert found.changed == len(found.rows)


def content(shop: Shop, mart: str, keys: tuple[str, ...], point: str) -> dict[tuple[Any, ...], Any]:
    result = query(shop.pipeline, f"select columns(c -> c not like '_cdc%') from {mart}", as_of=point)
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    return {tuple(row.pop(key) for key in keys): row for row in rows}


def test_all_are_counted_and_few_are_returned(undamaged_shop: Shop) -> None:
    found = diff(undamaged_shop.pipeline, "items_history", "batch:1", limit=1)

    assert (found.changed, len(found.rows)) == (2, 1)


@pytest.mark.parametrize(("word", "means"), [("gold.prices", "no mart"), ("items*", "items, items_all")])
def test_only_marts_can_be_compared(undamaged_shop: Shop, word: str, means: str) -> None:
    with pytest.raises(NotAMartError, match=means):
        diff(undamaged_shop.pipeline, word, "batch:1")


def test_a_point_that_the_mart_has_not_is_refused(undamaged_shop: Shop) -> None:
    with pytest.raises(PointError, match="no snapshot of batch 7"):
        diff(undamaged_shop.pipeline, "items", "batch:1", "batch:7")
