"""A machine that lost its power may lack files of what a run wrote on its branch: upkeep and erasing go on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.recover.test_power_cuts import AFTER_SECOND, FIRST, SECOND, cut_at, metadata, rows, wrong
from tests.shop import LONG

from frazil import api
from frazil.iceberg.files import torn_snapshots
from frazil.iceberg.metadata import read_metadata
from frazil.lake.commit import TableTransaction
from frazil.runner.maintain import maintain
from frazil.spec import Upkeep

if TYPE_CHECKING:
    from tests.shop import Shop


def torn(shop: Shop) -> list[int]:
    return torn_snapshots(read_metadata(f"{metadata(shop, 'marts', 'orders')}"))


def lose_what_a_branch_has(shop: Shop, part: str, patch: pytest.MonkeyPatch, *, is_killed: bool) -> None:
    """End a run before its branch is published, and let the disk lack a file of it; a killed one leaves the branch."""
    shop.land("1.csv", *FIRST)
    shop.run()
    shop.land("2.csv", *SECOND)
    folder = shop.pipeline.folder / "lake" / "marts" / "orders" / "metadata"
    there = {*folder.iterdir()}
    with patch.context() as killed:
        if is_killed:
            killed.setattr(TableTransaction, "__exit__", lambda *_: None)
        cut_at("mart.before_publish", patch, shop.by(row_delta_bytes=0, strategy="delete_append").run)
    lost = [path for path in folder.glob(part) if path not in there]
    assert lost != []
    for path in lost:
        os.truncate(path, 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "is_killed"), [("snap-*.avro", True), LONG("snap-*.avro", False), LONG("*-m0.avro", True)]
)
def test_upkeep_lets_go_of_what_cannot_be_read(
    part: str, shop: Shop, monkeypatch: pytest.MonkeyPatch, *, is_killed: bool
) -> None:
    lose_what_a_branch_has(shop, part, monkeypatch, is_killed=is_killed)
    before = torn(shop)
    brief = Upkeep(expire_after_days=30, retain_last=20, orphans_after_days=1)

    maintain(shop.pipeline.model_copy(update={"upkeep": brief}), shop.session)

    assert (before != [], torn(shop)) == (True, [])
    shop.run()
    assert rows(shop) == AFTER_SECOND
    assert wrong(shop) == []


@pytest.mark.long
def test_an_erase_lets_go_of_what_cannot_be_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_what_a_branch_has(shop, "snap-*.avro", monkeypatch, is_killed=True)
    shop.run()
    before = torn(shop)

    api.erase(shop.pipeline, "orders", keys=["1"], spark=shop.session)

    assert (before != [], torn(shop)) == (True, [])
    assert rows(shop) == AFTER_SECOND[1:]
    assert wrong(shop) == []
