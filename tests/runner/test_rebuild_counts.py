"""What a mart that is written whole counts: its living keys, before and after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import frazil

if TYPE_CHECKING:
    from tests.shop import Shop

    from frazil.runner.report import TableReport


@pytest.mark.long
def test_a_rebuild_counts_what_it_repairs(shop: Shop) -> None:
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,a" for number in range(1, 6)))
    shop.run()
    shop.session.sql("DELETE FROM lake.marts.orders WHERE id IN (1, 2)")
    shop.session.sql("UPDATE lake.marts.orders SET _cdc_row = 99 WHERE id = 3")
    shop.session.sql(
        "INSERT INTO lake.marts.orders SELECT 7, ts, note, _cdc_position, 7 FROM lake.marts.orders LIMIT 1"
    )

    [report] = frazil.run(shop.pipeline, spark=shop.session, rebuild=True).tables

    assert counts(report) == {"orders": (2, 1, 1, 0), "orders_history": (0, 0, 0, 0)}
    assert [mart.rows for mart in report.marts] == [5, 5]


@pytest.mark.parametrize("rebuild", [False, pytest.param(True, marks=pytest.mark.laws)])
def test_a_mart_that_comes_later_inserts_every_living_key(rebuild: bool, shop: Shop) -> None:  # noqa: FBT001
    """No change is late for a mart that had none."""
    shop.land("LOAD001.csv", "I,1,2026-01-01 00:00:00,a", "I,2,2026-01-01 00:00:00,a", "I,3,2026-01-01 00:00:00,a")
    shop.run()
    shop.land("20260102-000000.csv", "D,3,2026-01-03 00:00:00,", "U,1,2026-01-02 00:00:00,b")
    shop.run()
    more = "{kind: current, name: soft, deletes: soft}, {kind: history, name: mark, deletes: mark}"
    shop = declare(shop, marts=more)

    [report] = frazil.run(shop.pipeline, spark=shop.session, rebuild=rebuild).tables

    assert {name: of for name, of in counts(report).items() if name in ("soft", "mark")} == {
        "soft": (2, 0, 0, 0),
        "mark": (2, 0, 0, 0),
    }


@pytest.mark.long
def test_a_mart_whose_deletes_become_of_another_kind_keeps_its_living_keys(shop: Shop) -> None:
    """Flags are NULL in rows written before they were declared, and stay behind when they no longer are."""
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,a" for number in range(1, 6)))
    shop.run()
    shop.land("20260102-000000.csv", "D,3,2026-01-02 00:00:00,")
    shop.run()

    for deletes in ("soft", "hard"):
        shop = declare(shop, marts=f"{{kind: current, deletes: {deletes}}}")
        [report] = frazil.run(shop.pipeline, spark=shop.session).tables

        assert counts(report) == {"orders": (0, 0, 0, 0)}
        assert [mart.strategy for mart in report.marts] == ["recompute"]


@pytest.mark.long
def test_a_column_of_the_source_that_is_called_as_a_flag_tells_nothing(shop: Shop) -> None:
    """It may be of any type, and stays in the table when it is no longer declared."""
    columns, names = "{name: id, type: int}, {name: ts, type: timestamp}", ("id", "ts", "is_deleted")
    shop = declare(shop, columns=f"{columns}, {{name: is_deleted, type: string}}", marts="{kind: current}")
    shop.land("LOAD001.csv", "I,1,2026-01-01 00:00:00,yes", "I,2,2026-01-01 00:00:00,no", names=names)
    shop.run()
    shop = declare(shop, columns=columns)

    [report] = frazil.run(shop.pipeline, spark=shop.session).tables

    assert [(mart.strategy, mart.rows) for mart in report.marts] == [("recompute", 2)]
    assert counts(report) == {"orders": (0, 0, 0, 0)}


def declare(shop: Shop, **settings: str) -> Shop:
    """Declare other columns or marts of the same table."""
    path = shop.pipeline.folder / "frazil.yml"
    lines = path.read_text(encoding="utf-8").splitlines()
    for name, values in settings.items():
        lines = [f"    {name}: [{values}]" if line.startswith(f"    {name}:") else line for line in lines]
    path.write_text("\n".join(lines), encoding="utf-8")
    return replace(shop, pipeline=frazil.load(path.parent))


def counts(report: TableReport) -> dict[str, tuple[int, int, int, int]]:
    """Give what a report counts of each mart."""
    return {mart.mart: (mart.inserted, mart.updated, mart.deleted, mart.late) for mart in report.marts}
