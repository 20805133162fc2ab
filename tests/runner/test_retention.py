"""A table with a retention: runs fold old changes from time to time, and changes before the horizon wait."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from frazil import api
from frazil.plan.policy import DEFAULT_POLICY
from frazil.runner.report import RunFailedError
from frazil.serve.cuts import FoldedPointError
from frazil.spec import Retention

if TYPE_CHECKING:
    from tests.shop import Shop

    from frazil.spec import Table

FUTURE = "2999-01-01 00:00:0"


def redeclared(shop: Shop, **settings: Any) -> Shop:
    """The same shop, its table declared otherwise."""
    before = shop.pipeline
    table: Table = before.tables[0].model_copy(update=settings)
    return replace(shop, pipeline=before.model_copy(update={"tables": (table,)}).at(before.folder))


def rows(shop: Shop, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in api.query(shop.pipeline, sql).rows]


def marts(shop: Shop) -> list[list[tuple[Any, ...]]]:
    return [rows(shop, f"select * from marts.{name} order by all") for name in ("orders", "orders_history")]


@pytest.mark.long
@pytest.mark.parametrize("broadcast_changes", [DEFAULT_POLICY.broadcast_changes, 1], ids=["few", "many"])
def test_old_changes_are_folded_and_all_is_as_before(shop: Shop, broadcast_changes: int) -> None:
    shop = shop.by(broadcast_changes=broadcast_changes)
    shop.land("20200101-000000001.csv", *(f"U,{key},2020-01-0{day} 00:00:00,a" for key in (1, 2) for day in (1, 2, 3)))
    shop.run()
    shop.land("20200101-000000002.csv", "D,2,2020-01-04 00:00:00,", f"U,1,{FUTURE}1,b", "U,x,2020-01-01 00:00:00,bad")
    shop.run()
    before = marts(shop)
    kept = redeclared(shop, retention=Retention(changes_days=30))

    assert [step.__class__.__name__ for step in api.plan(kept.pipeline).steps] == ["FoldChanges"]
    assert (kept.run_again(), kept.run_again()) == (1, 0)

    # Of key 1 the two ends of its first version, of key 2 also its delete; the record in quarantine stays.
    assert rows(kept, "select count(*) from silver.orders_changes") == [(6,)]
    assert rows(kept, "select _cdc_kind, count(*), sum(_cdc_offset) from bronze.orders group by 1 order by 1") == [
        ("file", 2, None),
        ("folded", 2, 7),
        ("record", 2, None),
    ]
    (status,) = api.status(kept.pipeline).tables
    assert (status.horizon is not None, status.rows, status.changes, status.quarantined) == (True, 9, 6, 1)
    assert marts(kept) == before
    with pytest.raises(FoldedPointError, match="cannot go back to batch 1: changes up to batch 2 are folded"):
        api.rollback_plan(kept.pipeline, "orders", "batch:1")

    kept.land(
        "20200101-000000003.csv", "U,2,2020-01-05 00:00:00,late", "U,7,2020-01-05 00:00:00,late", f"U,2,{FUTURE}2,c"
    )
    kept.land("again.csv", *(f"U,{key},2020-01-0{day} 00:00:00,a" for key in (1, 2) for day in (1, 2, 3)))
    report = kept.run()

    assert (report.quarantined, report.duplicates) == (2, 1)
    assert rows(kept, "select rule, count(*) from silver.orders_quarantine group by 1 order by 1") == [
        ("before_horizon", 2),
        ("cast", 1),
    ]
    assert rows(kept, "select id, note from marts.orders order by 1") == [(1, "b"), (2, "c")]
    after = marts(kept)
    api.run(kept.pipeline, spark=kept.session, rebuild=True)
    assert marts(kept) == after
    assert [finding.detail for finding in api.check(kept.pipeline) if not finding.ok] == []
    story = api.key(kept.pipeline, "orders", ["2"])
    assert any("are folded" in note for note in story.notes), story.notes
    with pytest.raises(RunFailedError, match="FZ507"):
        redeclared(kept, keys=("note",)).run()
    assert marts(kept) == after


@pytest.mark.laws
def test_an_erase_names_the_files_with_folded_records(shop: Shop) -> None:
    shop.land("20200101-000000001.csv", "U,1,2020-01-01 00:00:00,a", "U,2,2020-01-01 00:00:00,a")
    shop.land("20200101-000000002.csv", "U,3,2020-01-01 00:00:00,a")
    shop.land("20200101-000000003.csv", f"U,1,{FUTURE}1,b")
    shop.run()
    for number in (1, 3):
        landing = shop.pipeline.folder / "landing"
        (landing / f"20200102-00000000{number}.csv").write_bytes(
            (landing / f"20200101-00000000{number}.csv").read_bytes()
        )
    assert shop.run().duplicates == 2
    kept = redeclared(shop, retention=Retention(changes_days=30))
    kept.run()
    shop.pipeline.folder.joinpath("landing", "20200101-000000002.csv").unlink()

    before = api.erase_preview(kept.pipeline, "orders", keys=["1"], spark=kept.session)
    done = api.erase(kept.pipeline, "orders", keys=["1"], spark=kept.session)

    assert done.proof is not None
    assert done.proof.is_clean
    for report in (before, done):
        assert report.files == ("landing/20200101-000000003.csv", "landing/20200102-000000003.csv")
        assert report.folded == ("landing/20200101-000000001.csv", "landing/20200102-000000001.csv")
