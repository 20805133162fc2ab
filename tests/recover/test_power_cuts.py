"""A machine loses its power: the catalog has a commit, and the disk not all files that it names."""

from __future__ import annotations

import datetime as dt
import os
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.failing import Disk, run_fails_with
from tests.hostile.situation import command
from tests.shop import LONG, declared

import frazil
from frazil import api
from frazil.catalog.warehouse import newest_version
from frazil.cli.console import NotConfirmedError
from frazil.failpoints import FailpointReached
from frazil.iceberg.metadata import DamagedTableError, local_path
from frazil.lake.tables import alter
from frazil.recover.catalog import repair_catalog
from frazil.recover.doctor import diagnose
from frazil.recover.setbacks import setbacks
from frazil.runner.maintain import maintain
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.serve.tables import tables
from frazil.steps import SetProperty

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.shop import Shop

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
FIRST = ("I,1,2024-01-01 00:00:00,one", "I,2,2024-01-01 00:00:00,two")
SECOND = ("U,1,2024-01-02 00:00:00,eins", "D,2,2024-01-02 00:00:00,", "I,3,2024-01-02 00:00:00,drei")
AFTER_FIRST, AFTER_SECOND = [(1, "one"), (2, "two")], [(1, "eins"), (3, "drei")]


@pytest.fixture
def disk(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(shop.pipeline.folder / "lake", monkeypatch)


def rows(shop: Shop) -> list[tuple[Any, ...]]:
    return sorted(query(shop.pipeline, "SELECT id, note FROM marts.orders").rows)


def versions(shop: Shop) -> list[tuple[Any, ...]]:
    return sorted(query(shop.pipeline, "SELECT id, note, is_current FROM marts.orders_history").rows)


def wrong(shop: Shop) -> list[object]:
    return [finding for finding in check(shop.pipeline) if finding.ok is False]


def metadata(shop: Shop, namespace: str, name: str) -> Path:
    """Return the metadata file that the catalog names."""
    path = local_path(tables(shop.pipeline)[namespace, name])
    assert path is not None
    return path


def cut_at(place: str, patch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something up to a place in it."""
    with patch.context() as within:
        within.setenv("FRAZIL_FAILPOINT", f"{place}:raise")
        with suppress(FailpointReached, frazil.RunFailedError):
            do()
            pytest.fail(f"never came to {place}")


def repair(shop: Shop) -> list[str]:
    return repair_catalog(shop.pipeline, NOW, spark=shop.session)


@pytest.mark.long
@pytest.mark.parametrize("luck", [1, LONG(2), LONG(3)])
@pytest.mark.parametrize(
    "place",
    [
        "bronze.after_publish",
        LONG("silver.before_publish"),
        LONG("silver.after_publish"),
        LONG("mart.before_publish"),
        "mart.after_publish",
    ],
)
def test_after_a_repair_the_next_run_goes_on_as_if_there_had_been_no_cut(
    place: str, luck: int, shop: Shop, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.land("1.csv", *FIRST)
    shop.run()
    shop.land("2.csv", *SECOND)
    cut_at(place, monkeypatch, shop.run)

    disk.lose_power(Random(luck))
    repair(shop)

    assert rows(shop) in (AFTER_FIRST, AFTER_SECOND)
    shop.run()
    assert rows(shop) == AFTER_SECOND
    assert versions(shop) == [(1, "eins", True), (1, "one", False), (2, "two", False), (3, "drei", True)]
    assert wrong(shop) == []


def test_what_a_run_that_ended_has_written_is_on_the_disk(shop: Shop, disk: Disk) -> None:
    shop.land("1.csv", *FIRST)
    shop.run()

    disk.lose_power(has_ended=True)

    assert setbacks(shop.pipeline) == []
    assert shop.run_again() == 0
    assert rows(shop) == AFTER_FIRST


@pytest.mark.long
@pytest.mark.parametrize("place", [LONG("maintain.after_rewrite"), "maintain.after_expire"])
def test_upkeep_flushes_new_files_before_it_removes_old_ones(
    place: str, shop: Shop, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):  # so many files are rewritten
        shop.land(f"{number}.csv", *(FIRST, SECOND)[number % 2])
        shop.run()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=30)
    upkeep = shop.pipeline.upkeep.model_copy(update={"retain_last": 1})
    keeping_one = shop.pipeline.model_copy(update={"upkeep": upkeep})
    cut_at(place, monkeypatch, lambda: maintain(keeping_one, shop.session, now=later))

    disk.lose_power()
    repair(shop)

    assert rows(shop) == AFTER_SECOND
    assert shop.run_again() == 0
    assert wrong(shop) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "place",
    [LONG("erase.after_block"), "erase.after_bronze", LONG("erase.after_marts"), LONG("erase.after_purge")],
)
def test_an_erase_after_a_power_cut_is_repeated_without_other_losses(
    place: str, shop: Shop, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, records in enumerate((FIRST, SECOND)):
        shop.land(f"{number}.csv", *records)
        shop.run()

    def erase() -> object:
        return api.erase(shop.pipeline, "orders", keys=["1"], spark=shop.session)

    cut_at(place, monkeypatch, erase)
    disk.lose_power()
    repair(shop)
    erase()

    assert rows(shop) == [(3, "drei")]
    shop.land("9.csv", FIRST[0])
    shop.run()
    assert rows(shop) == [(3, "drei")]
    assert wrong(shop) == []


def test_many_alterations_leave_a_version_that_the_disk_has(shop: Shop, disk: Disk) -> None:
    """Iceberg removes the metadata of all but the newest nine versions."""
    shop.land("1.csv", *FIRST)
    shop.run()
    alter(shop.session, "lake.bronze.orders", [SetProperty(name=f"p{n}", value="1") for n in range(30)])

    disk.lose_power(has_ended=True)
    repair(shop)

    assert shop.run_again() == 0
    assert rows(shop) == AFTER_FIRST


def test_every_command_reports_an_unreadable_table_with_the_way_out(shop: Shop) -> None:
    """Iceberg alone would try to read such a file for a minute and a half."""
    shop.land("1.csv", *FIRST)
    shop.run()
    os.truncate(metadata(shop, "silver", "orders_changes"), 0)

    with run_fails_with(DamagedTableError, match="silver.orders_changes is damaged") as failed:
        shop.run()
    [found] = [finding for finding in diagnose(shop.pipeline) if finding.what == "catalog"]

    assert all("frazil doctor --repair" in f"{error.hint}" for error in failed.value.errors)
    assert (found.ok, "silver.orders_changes is damaged" in found.detail) == (False, True)
    assert "frazil doctor --repair" in f"{found.hint}"


@pytest.mark.long
def test_a_file_of_rows_that_is_cut_off_sets_its_table_back(shop: Shop) -> None:
    for number, records in enumerate((FIRST, SECOND)):
        shop.land(f"{number}.csv", *records)
        shop.run()
    folder = shop.pipeline.folder / "lake" / "marts" / "orders" / "data"
    newest = max(folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    os.truncate(newest, newest.stat().st_size - 1)

    [due] = setbacks(shop.pipeline)

    assert (due.full_name, due.batch, due.is_back) == ("marts.orders", 1, True)
    assert repair(shop) == ["marts.orders"]
    assert rows(shop) == AFTER_FIRST
    shop.run()
    assert rows(shop) == AFTER_SECOND
    assert wrong(shop) == []


@pytest.mark.long
def test_what_is_made_of_bronze_goes_back_as_far_as_bronze(shop: Shop) -> None:
    """The next batch of bronze can be another one than the one that was lost."""
    for number, records in enumerate((FIRST, SECOND)):
        shop.land(f"{number}.csv", *records)
        shop.run()
    os.truncate(metadata(shop, "bronze", "orders"), 0)
    shop.land("2.csv", "U,3,2024-01-03 00:00:00,trois")

    assert {(due.full_name, due.batch) for due in setbacks(shop.pipeline)} == {
        ("bronze.orders", 1),
        ("silver.orders_changes", 1),
        ("marts.orders", 1),
        ("marts.orders_history", 1),
    }
    repair(shop)
    shop.run()

    assert rows(shop) == [(1, "eins"), (3, "trois")]
    assert wrong(shop) == []


def test_a_table_without_an_intact_version_is_moved_aside_and_rebuilt(shop: Shop) -> None:
    shop.land("1.csv", *FIRST)
    shop.run()
    folder = shop.pipeline.folder / "lake" / "marts" / "orders"
    for path in (folder / "metadata").glob("*.json"):
        os.truncate(path, 0)

    [due] = setbacks(shop.pipeline)
    repair(shop)

    assert (due.full_name, due.version, due.is_back) == ("marts.orders", None, True)
    assert [path.name for path in (shop.pipeline.folder / "lake" / ".frazil" / "damaged").glob("*/marts/*")] == [
        "orders"
    ]
    assert newest_version(folder) is None
    shop.run()
    assert rows(shop) == AFTER_FIRST
    assert wrong(shop) == []


@pytest.mark.long
def test_bronze_that_was_set_back_by_hand_is_what_the_other_tables_are_made_of_again(shop: Shop) -> None:
    """Its next batch has the number of one that silver has, and other changes."""
    for number, records in enumerate((FIRST, SECOND)):
        shop.land(f"{number}.csv", *records)
        shop.run()
    first = shop.session.sql("SELECT snapshot_id FROM lake.bronze.orders.snapshots ORDER BY committed_at").first()
    assert first is not None
    shop.session.sql(f"CALL lake.system.rollback_to_snapshot('bronze.orders', {first[0]})")
    (shop.pipeline.folder / "landing" / "1.csv").unlink()
    shop.land("2.csv", "U,1,2024-01-03 00:00:00,uno")

    reasons = {getattr(step, "reason", None) for step in api.plan(shop.pipeline).steps}
    shop.run()

    assert reasons == {"it holds batches that bronze has no longer"}
    assert rows(shop) == AFTER_FIRST
    shop.run()
    assert rows(shop) == [(1, "uno"), (2, "two")]
    assert wrong(shop) == []


def test_an_unreadable_view_is_recreated(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg cannot even drop it."""
    del spark
    columns = "{name: id, type: bigint}, {name: ts, type: timestamp}, {name: note}"
    shop = declared(tmp_path, keys="id", columns=columns, marts="{kind: current, deletes: soft, live_view: live}")
    shop.land("1.csv", *FIRST)
    shop.run()
    [view] = (tmp_path / "lake" / "marts" / "live" / "metadata").glob("*.json")
    os.truncate(view, 0)

    [due] = setbacks(shop.pipeline)
    repair(shop)

    assert (due.full_name, due.is_view) == ("marts.live", True)
    assert shop.session.table("lake.marts.live").count() == len(FIRST)
    assert setbacks(shop.pipeline) == []


@pytest.mark.long
def test_the_hashes_of_erased_keys_are_never_set_aside(shop: Shop) -> None:
    shop.land("1.csv", *FIRST)
    shop.run()
    api.erase(shop.pipeline, "orders", keys=["1"], spark=shop.session)
    for path in (shop.pipeline.folder / "lake" / "silver" / "orders_erased" / "metadata").glob("*.json"):
        os.truncate(path, 0)

    with pytest.raises(DamagedTableError, match=r"silver\.orders_erased is damaged"):
        repair(shop)


def test_people_are_asked_before_tables_go_back(shop: Shop) -> None:
    shop.land("1.csv", *FIRST)
    shop.run()
    shop.land("2.csv", *SECOND)
    shop.run()
    os.truncate(metadata(shop, "marts", "orders"), 0)
    folder = f"{shop.pipeline.folder}"

    refused = command("doctor", folder, "--repair")
    unchanged = setbacks(shop.pipeline)
    repaired = command("doctor", folder, "--repair", "--yes")

    assert refused.code == NotConfirmedError.exit_code
    assert "marts.orders: back to version" in refused.text
    assert [due.full_name for due in unchanged] == ["marts.orders"]
    assert repaired.code == 0
    assert setbacks(shop.pipeline) == []
