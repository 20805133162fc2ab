"""Two declarations that take turns are warned of: each turn rebuilds tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.runner.test_rebuild_counts import declare

if TYPE_CHECKING:
    from tests.shop import Shop

COLUMNS = "{name: id, type: int}, {name: ts, type: timestamp}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"columns": f"{COLUMNS}, {{name: note}}"}, {"columns": f"{COLUMNS}, {{name: note, type: int}}"}),
        ({"marts": "{kind: current, deletes: soft}"}, {"marts": "{kind: current, deletes: hard}"}),
    ],
)
def test_a_declaration_that_comes_back_after_another_is_warned_of_once(
    first: dict[str, str], second: dict[str, str], shop: Shop
) -> None:
    shop = declare(shop, marts="{kind: current, deletes: soft}")
    shop.land("LOAD001.csv", "I,1,2026-01-01 00:00:00,7")
    warned = []
    for settings in (first, second, first, second):
        shop = declare(shop, **settings)
        warned.append([text for text in shop.run().warnings if "two hosts or branches" in text])
    shop.land("20260102-000000.csv", "I,2,2026-01-02 00:00:00,8")
    warned.append([text for text in shop.run().warnings if "two hosts or branches" in text])

    assert [len(texts) for texts in warned] == [0, 0, 1, 1, 0]
