"""Where the tables stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.serve.status import gold_status, status
from frazil.spec.sql.select import UnknownSelectionError

if TYPE_CHECKING:
    from tests.serve.conftest import Shop

pytestmark = pytest.mark.spark


def test_it_counts_every_layer(shop: Shop) -> None:
    (items,) = status(shop.pipeline)

    assert (items.batch, items.silver_batch) == (2, 2)
    assert (items.files, items.duplicates, items.rows, items.bad) == (3, 1, 9, 0)
    assert (items.changes, items.quarantined) == (8, 1)
    assert (items.waiting, items.touched, items.trouble) == ((), (), None)


def test_it_counts_the_rows_that_marts_show(shop: Shop) -> None:
    (items,) = status(shop.pipeline)

    assert {mart.name: (mart.rows, mart.deleted_rows, mart.lag) for mart in items.marts} == {
        "marts.items": (3, None, 0),
        "marts.items_all": (4, 1, 0),
        "marts.items_history": (6, 1, 0),
        "marts.items_marked": (7, 1, 0),
    }
    assert all(mart.data_files and mart.size_bytes and mart.committed_at for mart in items.marts)


def test_aggregates_have_a_line_too(shop: Shop) -> None:
    (prices,) = gold_status(shop.pipeline)

    assert (prices.name, prices.batch, prices.lag, prices.rows) == ("gold.prices", 2, 0, 1)


def test_files_that_wait_and_files_that_were_touched_are_named(shop: Shop) -> None:
    waiting = shop.folder / "landing" / "9.csv"
    waiting.write_text("op,id\n", encoding="utf-8")
    try:
        with shop.changed("again.csv", b"op,id\n"):
            (items,) = status(shop.pipeline)
    finally:
        waiting.unlink()

    assert (items.waiting, items.touched) == (("landing/9.csv",), ("landing/again.csv",))


def test_status_shows_the_lake_without_its_source(shop: Shop) -> None:
    landing = shop.folder / "landing"
    landing.rename(shop.folder / "elsewhere")
    try:
        (items,) = status(shop.pipeline)
    finally:
        (shop.folder / "elsewhere").rename(landing)

    assert items.rows == 9
    assert items.trouble is not None
    assert "no such folder" in items.trouble


def test_a_selection_that_means_nothing_is_an_error(shop: Shop) -> None:
    with pytest.raises(UnknownSelectionError):
        status(shop.pipeline, select=["nothing"])
