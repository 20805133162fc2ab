"""When small files are merged, and the files that remain."""

from __future__ import annotations

from contextlib import ExitStack
from threading import Timer
from typing import TYPE_CHECKING

import pytest

from frazil import api
from frazil.catalog.lock import lock
from frazil.errors import BusyError
from frazil.iceberg.snapshot import TableSnapshot
from frazil.lake.refs import head
from frazil.plan.policy import DEFAULT_POLICY
from frazil.runner.compact import has_many_files, small_bytes, span_due
from frazil.spec import Upkeep
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from tests.shop import Shop


@pytest.mark.parametrize(
    ("data", "deletes", "size_mb", "are_many"),
    [(7, 7, 10, False), (8, 0, 10, True), (1, 8, 10_000, True), (100, 0, 12_000, False), (100, 0, 100, True)],
)
def test_many_small_files_or_many_files_of_deletes_are_merged_by_spark_where_the_driver_cannot(
    data: int,
    deletes: int,
    size_mb: int,
    are_many: bool,  # noqa: FBT001 - pytest gives it by name
) -> None:
    summary = {
        "total-data-files": f"{data}",
        "total-delete-files": f"{deletes}",
        "total-files-size": f"{size_mb * 1024 * 1024}",
    }

    assert has_many_files(TableSnapshot(summary=summary), Upkeep(), DEFAULT_POLICY) is are_many


@pytest.mark.parametrize(
    ("target_mb", "table_mb", "small_kb"),
    [(128, 10_000, 4096), (128, 16, 4096), (128, 4, 1024), (4, 10_000, 1024)],
)
def test_a_run_merges_no_file_that_is_read_for_longer_than_it_takes_to_open_it(
    target_mb: int, table_mb: int, small_kb: int
) -> None:
    """Nor one that is a large part of its table; ``maintain`` merges what is well below its target."""
    upkeep, at = (
        Upkeep(target_file_mb=target_mb),
        TableSnapshot(summary={"total-files-size": f"{table_mb * 1024 * 1024}"}),
    )

    assert small_bytes(upkeep, DEFAULT_POLICY, at) == small_kb * 1024
    assert small_bytes(upkeep, DEFAULT_POLICY) == target_mb * 256 * 1024


@pytest.mark.long
def test_small_batches_mark_rows_by_their_place_and_are_compacted_in_time(shop: Shop) -> None:
    """A batch is a file of rows and a file of places; after a few of them a run merges what has gathered."""
    shop = shop.by(merge_every=5)
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,new" for number in range(100)))
    shop.run()
    seen = []

    for number in range(1, 6):
        changes = f"U,{number},2026-01-02 00:00:0{number},again", f"D,{50 + number},2026-01-02 00:00:00,"
        shop.land(f"20260102-00000{number}.csv", *changes)
        seen.append([(mart.strategy, mart.updated, mart.deleted, mart.compacted) for mart in shop.run().marts])

    plain, merged = ("row_delta", 1, 1, False), ("row_delta", 1, 1, True)
    session = shop.session
    assert [current for current, _ in seen] == [plain, plain, plain, merged, plain]
    assert head(session, "lake.marts.orders").summary["total-delete-files"] == "1"
    assert session.table("lake.marts.orders").count() == 95
    assert session.table("lake.marts.orders").where("note = 'again'").count() == 5
    history = session.table("lake.marts.orders_history")
    assert (history.count(), history.where("is_current").count()) == (105, 95)


@pytest.mark.laws
def test_the_large_file_of_a_table_is_not_rewritten_for_new_rows(shop: Shop) -> None:
    """Small files are merged with each other, while few rows of the large one are deleted."""
    shop = shop.by(merge_every=7)
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,{number * 7919 % 9973}" for number in range(5000)))
    shop.run()
    files = f"SELECT file_path FROM {quote('lake', 'marts', 'orders', 'files')} WHERE content = 0"
    [[loaded]] = shop.session.sql(files).collect()

    for number in range(1, 7):
        shop.land(f"20260102-00000{number}.csv", f"U,{number},2026-01-02 00:00:0{number},again")
        merged = shop.run().marts[0].compacted

    assert merged
    left = [path for [path] in shop.session.sql(files).collect()]
    assert loaded in left
    assert len(left) == 2
    assert shop.session.table("lake.marts.orders").count() == 5000


@pytest.mark.parametrize(
    ("after", "upto", "span"),
    [(0, 1, None), (10, 11, None), (11, 12, 12), (12, 13, None), (10, 14, 12), (143, 144, 144), (5, 300, 144)],
)
def test_small_files_are_merged_every_twelfth_batch_and_merged_files_every_144th(
    after: int, upto: int, span: int | None
) -> None:
    assert span_due(after, upto, 12) == span


@pytest.mark.laws
def test_batches_leave_few_files_in_bronze_and_silver(shop: Shop) -> None:
    """The files of three batches become one in silver, and of nine in both, but for the large one of the load.

    In bronze there are two a batch, one of records and one of the ledger.
    """
    shop = shop.by(compact_every=3, compact_partition_files=3)
    shop.land("LOAD001.csv", *(f"I,{number},2026-01-01 00:00:00,{number * 7919 % 9973}" for number in range(5000)))
    shop.run()
    before = {name: paths(shop, *name) for name in (("bronze", "orders"), ("silver", "orders_changes"))}
    left: dict[tuple[str, str], list[int]] = {name: [] for name in before}

    for number in range(2, 10):
        shop.land(f"20260102-{number:06}.csv", f"U,{number},2026-01-02 00:00:{number:02},x")
        shop.run()
        for name, seen in left.items():
            seen.append(len(paths(shop, *name) - before[name]))

    loaded = "bronze", "orders"
    assert len(before[loaded] & paths(shop, *loaded)) == 1
    assert left == {
        ("bronze", "orders"): [2, 4, 6, 8, 10, 12, 14, 2],
        ("silver", "orders_changes"): [1, 2, 3, 4, 1, 2, 3, 1],
    }
    assert shop.run_again() == 0
    assert shop.session.table("lake.silver.orders_changes").count() == 5008
    assert shop.session.table("lake.marts.orders").where("note = 'x'").count() == 8


def paths(shop: Shop, *name: str) -> set[str]:
    """Paths of the data files of a table."""
    return {
        row.file_path for row in shop.session.sql(f"SELECT file_path FROM {quote('lake', *name, 'files')}").collect()
    }


@pytest.mark.long
def test_maintenance_waits_for_a_run_to_end(shop: Shop) -> None:
    shop.land("LOAD001.csv", "I,1,2026-01-01 00:00:00,new")
    shop.run()

    with ExitStack() as held:
        held.enter_context(lock(shop.pipeline))
        with pytest.raises(BusyError, match="held by another run"):
            api.maintain(shop.pipeline, spark=shop.session, wait_seconds=0)
        Timer(0.5, held.close).start()

        assert [report.table for report in api.maintain(shop.pipeline, spark=shop.session)] != []
