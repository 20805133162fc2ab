"""A run maintains the tables that are due, and no others."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil import api
from frazil.errors import StorageError
from frazil.failpoints import FailpointReached
from frazil.lake.refs import head
from frazil.plan.policy import Policy
from frazil.runner import maintain as upkeep_maintain
from frazil.runner.maintain import maintain, maintain_due, merge_manifests
from frazil.runner.report import RunReport

if TYPE_CHECKING:
    from tests.shop import Shop

MARTS = ("marts.orders", "marts.orders_history")


def with_upkeep(shop: Shop, **settings: Any) -> Shop:
    declaration = shop.pipeline.folder / "frazil.yml"
    declaration.write_text(f"upkeep: {json.dumps({'retain_last': 1, **settings})}{declaration.read_text()}")
    return replace(shop, pipeline=frazil.load(declaration))


def deliver(shop: Shop, day: int) -> RunReport:
    """Land one more change, and run."""
    shop.land(f"2026010{day}-000000000.csv", f"I,{day},2026-01-0{day} 00:00:00,note {day}")
    return frazil.run(shop.pipeline, spark=shop.session)


def snapshots(shop: Shop, mart: str) -> int:
    return shop.session.sql(f"SELECT * FROM lake.{mart}.snapshots").count()


@pytest.mark.long
def test_a_run_maintains_its_tables_and_overdue_ones(shop: Shop) -> None:
    kept = with_upkeep(shop, expire_after_days=0, after_run_days=0)
    deliver(kept, 1)

    report = deliver(kept, 2)

    assert {*MARTS} <= {one.table for one in report.maintained}
    assert [snapshots(shop, mart) for mart in MARTS] == [1, 1]
    assert report.warnings == []
    assert kept.run_again() == 0  # the bookmarks are still there
    assert [row["id"] for row in shop.session.sql("SELECT id FROM lake.marts.orders ORDER BY id").collect()] == [1, 2]


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"expire_after_days": 0},
        {"expire_after_days": 0, "after_run_days": 1},
        {"expire_after_days": 1, "after_run_days": 0},
    ],
    ids=["not asked for", "due tomorrow", "nothing may go"],
)
def test_what_is_not_due_is_left_alone(shop: Shop, settings: dict[str, float]) -> None:
    kept = with_upkeep(shop, **settings)

    assert [deliver(kept, day).maintained for day in (1, 2)] == [[], []]
    assert snapshots(shop, "marts.orders") > 1


@pytest.mark.laws
def test_what_a_cut_keeps_does_not_make_a_table_due(shop: Shop) -> None:
    kept = with_upkeep(shop, expire_after_days=0, after_run_days=0)
    deliver(kept, 1)
    api.cut(kept.pipeline.folder, "kept", spark=kept.session)
    deliver(kept, 2)
    report = RunReport(pipeline="shop")

    # Every snapshot is long past its time: the cut's, and the newest.
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=10)
    maintain_due(kept.session, kept.pipeline, {"orders"}, report, now=later, tell=lambda _: None)

    assert snapshots(shop, "marts.orders") == 2
    assert (report.maintained, report.warnings) == ([], [])


@pytest.mark.long
def test_maintenance_that_fails_is_a_warning_and_no_failed_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> int:
        raise StorageError("the disk is full")

    kept = with_upkeep(shop, expire_after_days=0, after_run_days=0)
    deliver(kept, 1)
    monkeypatch.setattr(upkeep_maintain, "compact", fail)

    report = deliver(kept, 2)

    assert report.exit_code == 0
    assert len([text for text in report.warnings if "is not maintained" in text and "the disk is full" in text]) >= 2
    assert [row["id"] for row in shop.session.sql("SELECT id FROM lake.marts.orders ORDER BY id").collect()] == [1, 2]


@pytest.mark.laws
def test_many_small_manifests_are_merged_and_the_bookmark_stays(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 6):
        deliver(shop, day)
    path = ("lake", "bronze", "orders")
    before = upkeep_maintain._manifests(shop.session, path)
    monkeypatch.setattr(upkeep_maintain, "DEFAULT_POLICY", Policy(manifests=4))
    monkeypatch.setenv("FRAZIL_FAILPOINT", "maintain.after_manifests:raise")

    with pytest.raises(FailpointReached):
        maintain(shop.pipeline, shop.session)
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    after = upkeep_maintain._manifests(shop.session, path)
    again = {one.table: one for one in maintain(shop.pipeline, shop.session)}

    assert (len(before), len(after)) == (5, 1)
    assert again["bronze.orders"].manifests_after <= 2
    assert shop.run_again() == 0
    assert len(shop.session.sql("SELECT id FROM lake.marts.orders").collect()) == 5


@pytest.mark.laws
def test_few_manifests_are_left_as_they_are(shop: Shop) -> None:
    deliver(shop, 1)
    deliver(shop, 2)
    name = "`lake`.`bronze`.`orders`"
    first = head(shop.session, name)

    merge_manifests(shop.session, ("lake", "bronze", "orders"), Policy())

    assert head(shop.session, name) == first
