"""A run does exactly the plan that it is given, or refuses it; a file is read once for its plan."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.hostile.situation import command

import frazil
from frazil import api
from frazil.iceberg.metadata import DamagedTableError
from frazil.runner.planner import OutdatedPlanError
from frazil.spark.gateway import java_table
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from pathlib import Path

    from tests.shop import Shop

    from frazil.runner.table_run import TableRun

pytestmark = pytest.mark.spark

ONE, TWO = "U,1,2026-01-01 00:00:00,ada", "U,2,2026-01-01 00:00:00,bob"


def ids(shop: Shop) -> list[int]:
    return sorted(row["id"] for row in shop.session.table("lake.marts.orders").collect())


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """SHA-256 of all that was hashed, one for each pass."""
    passes: list[str] = []
    real = hashlib.sha256

    class Noted:
        def __init__(self, *given: Any, **named: Any) -> None:
            self._hash = real(*given, **named)
            self.update = self._hash.update
            self.digest = self._hash.digest

        def hexdigest(self) -> str:
            passes.append(self._hash.hexdigest())
            return passes[-1]

    monkeypatch.setattr(hashlib, "sha256", Noted)
    return passes


@pytest.mark.parametrize("asked", [["run"], ["run", "--full-refresh", "--yes"]], ids=" ".join)
def test_a_command_hashes_each_new_file_once(asked: list[str], shop: Shop, hashed: list[str]) -> None:
    files: list[Path] = []
    for day in (1, 2):
        shop.land(f"2026010{day}.csv", f"U,{day},2026-01-0{day} 00:00:00,ada")
        files.append(shop.pipeline.folder / "landing" / f"2026010{day}.csv")
    contents = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    hashed.clear()

    assert command(asked[0], f"{shop.pipeline.folder}", *asked[1:]).code == 0

    assert [hashed.count(content) for content in contents] == [1, 1]
    assert ids(shop) == [1, 2]
    hashed.clear()
    assert command("run", f"{shop.pipeline.folder}").code == 0
    assert [hashed.count(content) for content in contents] == [0, 0]


def test_a_run_does_exactly_the_given_plan(shop: Shop) -> None:
    shop.land("20260101.csv", ONE)
    plan = api.plan(shop.pipeline)
    shop.land("20260102.csv", TWO)

    report = api.run(shop.pipeline.folder, plan=plan)

    assert report.steps == len(plan.steps) == 4
    assert [table.rows for table in report.tables] == [1]
    assert ids(shop) == [1]
    assert [mart.inserted for mart in frazil.run(shop.pipeline).tables[0].marts] == [1, 1]
    assert ids(shop) == [1, 2]


@pytest.mark.parametrize("rebuild", [False, pytest.param(True, marks=pytest.mark.laws)])
def test_a_plan_is_refused_once_the_lake_has_moved(shop: Shop, *, rebuild: bool) -> None:
    """ONCE: nothing is written, and a new plan does the work."""
    shop.land("20260101.csv", ONE)
    shop.run()
    shop.land("20260102.csv", TWO)
    plan = api.plan(shop.pipeline, rebuild=rebuild)
    shop.run()
    before = api.status(shop.pipeline)

    with pytest.raises(OutdatedPlanError, match=r"bronze\.orders was written since the plan was made") as caught:
        api.run(shop.pipeline, plan=plan)

    assert (caught.value.code, caught.value.exit_code, caught.value.retryable) == ("FZ601", 7, True)
    assert api.status(shop.pipeline) == before
    assert api.plan(shop.pipeline).is_idle


def test_a_plan_of_another_declaration_is_refused(shop: Shop) -> None:
    shop.land("20260101.csv", ONE)
    plan = api.plan(shop.pipeline)
    (table,) = shop.pipeline.tables
    other = shop.pipeline.model_copy(update={"tables": (table.model_copy(update={"max_bad_rows": 5}),)})

    with pytest.raises(OutdatedPlanError, match="the declaration was changed"):
        api.run(other, plan=plan)

    assert not api.plan(shop.pipeline).is_idle


def test_a_file_that_changed_since_fails_its_table(shop: Shop) -> None:
    shop.land("20260101.csv", ONE)
    plan = api.plan(shop.pipeline)
    shop.land("20260101.csv", ONE, TWO)

    with pytest.raises(frazil.RunFailedError) as caught:
        api.run(shop.pipeline, plan=plan)

    assert [failure.code for failure in caught.value.report.errors] == ["FZ202"]
    assert frazil.run(shop.pipeline).tables[0].rows == 2


def test_what_a_plan_could_not_read_is_planned_by_the_run(shop: Shop) -> None:
    shop.land("20260101.csv", ONE)
    shop.run()
    metadata = sorted((shop.pipeline.folder / "lake" / "marts" / "orders" / "metadata").glob("*.metadata.json"))
    metadata[-1].unlink()

    plan = api.plan(shop.pipeline, rebuild=True)
    report = api.run(shop.pipeline, plan=plan)

    assert plan.unread == {"orders"}
    assert plan.exit_code == 4
    assert report.errors == []
    assert ids(shop) == [1]


def test_a_plan_that_failed_fails_the_run_in_the_same_way(shop: Shop) -> None:
    (shop.pipeline.folder / "landing").rmdir()

    plan = api.plan(shop.pipeline)
    with pytest.raises(frazil.RunFailedError) as caught:
        api.run(shop.pipeline, plan=plan)

    assert [error.code for error in plan.errors] == ["FZ201"]
    assert caught.value.report.errors == plan.errors


@pytest.mark.parametrize(("elsewhere", "code"), [(False, "FZ306"), (True, "FZ600")])
def test_files_that_another_process_removed_meanwhile_are_no_damage(
    *, elsewhere: bool, code: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an erase on another host ends while this run stands still."""
    shop.land("20260101.csv", ONE)
    shop.run()

    def reads(context: TableRun, *_: object) -> None:
        if elsewhere:
            java_table(shop.session, quote(*context.changes)).newFastAppend().commit()
        raise DamagedTableError("s3://lake/silver/orders_changes/metadata/1-m0.avro", "cannot be read")

    monkeypatch.setattr("frazil.runner.run._do", reads)
    shop.land("20260102.csv", TWO)
    with pytest.raises(frazil.RunFailedError) as failed:
        shop.run()

    assert [error.code for error in failed.value.errors] == [code]
