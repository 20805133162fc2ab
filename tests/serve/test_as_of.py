"""SQL over the lake as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.iceberg.metadata import metadata_of
from frazil.iceberg.time_travel import NotYetThereError, PointError, head_log, utc_text
from frazil.serve.query.query import query
from frazil.serve.tables import tables

if TYPE_CHECKING:
    from datetime import datetime

    from tests.serve.conftest import Shop

pytestmark = pytest.mark.spark


def heads(shop: Shop, *path: str) -> list[tuple[datetime, int]]:
    return head_log(metadata_of(tables(shop.pipeline)[path[0], path[1]]))


def test_tables_are_read_as_they_were(undamaged_shop: Shop) -> None:
    """Before the second batch key 1 had no late version, for each way to name the point."""
    shop = undamaged_shop  # other tests damage the other one, and their damage stays in its past
    (since, first), (later, second) = heads(shop, "marts", "items_history")[:2]
    sql = "select count(*) from items_history where id = 1"

    assert [query(shop.pipeline, sql, as_of=f"{point}").rows for point in (first, second)] == [[(2,)], [(3,)]]
    assert query(shop.pipeline, sql, as_of="batch:1").rows == [(2,)]
    assert query(shop.pipeline, sql, as_of=utc_text(since)).rows == [(2,)]
    assert query(shop.pipeline, sql, as_of=utc_text(later)).rows == [(3,)]
    assert query(shop.pipeline, sql).rows == [(3,)]


@pytest.mark.laws
def test_a_snapshot_of_another_table_is_refused_and_a_name_in_another_place_does_not_count(shop: Shop) -> None:
    _, first = heads(shop, "marts", "items")[0]

    with pytest.raises(PointError, match=rf"marts\.items_history has no snapshot {first}\n.*the newest of"):
        query(shop.pipeline, "select * from items join items_history using (id)", as_of=f"{first}")
    assert query(shop.pipeline, "select count(*) as items_history from items", as_of=f"{first}").rows == [(3,)]


def test_a_time_before_the_table_is_refused_with_the_earliest_there_is(shop: Shop) -> None:
    since, _ = heads(shop, "marts", "items")[0]

    for sql in ("select * from items", "describe items", 'from "lake"."MARTS".items'):
        with pytest.raises(NotYetThereError) as refused:
            query(shop.pipeline, sql, as_of="2026-01-01")
        assert utc_text(since) in f"{refused.value.hint}"
    assert query(shop.pipeline, "select 1 as items", as_of="2026-01-01").rows == [(1,)]
