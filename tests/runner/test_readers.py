"""Bronze is the same with each reader of a batch's files."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, get_args

import pytest
from tests.failing import run_fails_with

from frazil.bronze.read import ChangedWhileReadError, records
from frazil.lake.refs import head
from frazil.plan.policy import Policy, Reader
from frazil.runner.steps import ingest
from frazil.runner.steps.ingest import reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from tests.shop import Shop

    from frazil.bronze.read import Batch
    from frazil.sources.base import NewFile

GOOD = [f"U,{number},2026-01-02 00:00:00,note {number % 7}" for number in range(300)]
BAD = ["U,1,2026-01-02 00:00:00", 'U,2,2026-01-02 00:00:00,"open']


@pytest.mark.long
@pytest.mark.parametrize("piece_bytes", [1, pytest.param(64_000_000, marks=pytest.mark.laws)])
@pytest.mark.parametrize("who", get_args(Reader))
def test_bronze_has_every_record_once_with_every_reader(who: Reader, piece_bytes: int, shop: Shop) -> None:
    """RAW: good records, bad ones, files and a file that comes twice, each by itself or many together."""
    shop = shop.by(reader=who, task_bytes=piece_bytes, file_bytes=piece_bytes)
    for number, some in enumerate((GOOD[:100], [*GOOD[100:200], *BAD], [], GOOD[200:])):
        shop.land(f"20260102-00000{number}.csv", *some)
    shop.land("20260102-000009.csv", *GOOD[200:])  # the same once more

    report = shop.run()

    rows = shop.session.table("lake.bronze.orders")
    assert {row["_cdc_kind"]: row["count"] for row in rows.groupBy("_cdc_kind").count().collect()} == {
        "record": 300,
        "bad": 2,
        "file": 5,
    }
    good = rows.where("_cdc_kind = 'record'").orderBy("_cdc_position", "_cdc_row").collect()
    assert [f"{row['op']},{row['id']},{row['ts']},{row['note']}" for row in good] == GOOD
    counts = report.files, report.duplicates, report.rows, report.bad, report.headers
    assert counts == (4, 1, 300, 2, 4)
    assert head(shop.session, "lake.bronze.orders").summary["total-records"] == "307"
    assert shop.session.table("lake.marts.orders").count() == 300


def test_a_file_that_changes_while_it_is_read_leaves_no_trace(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ATOMIC: of a stream that breaks nothing is visible, and nothing is left on the local disk."""
    local = tmp_path / "local"
    local.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", f"{local}")
    shop = shop.by(reader="stream", task_bytes=1)
    shop.land("20260102-000000.csv", *GOOD[:100])
    shop.land("20260102-000001.csv", *GOOD[100:200])
    growing = shop.pipeline.folder / "landing" / "20260102-000001.csv"

    def grow(file: NewFile, batch: Batch) -> Iterator[pa.RecordBatch]:
        pieces = records(file, batch)
        yield next(pieces)
        if file.uri == f"{growing}":
            with growing.open("a") as text:
                text.write("U,999,2026-01-03 00:00:00,new\n")
        yield from pieces

    with monkeypatch.context() as patch:
        patch.setattr(ingest, "records", grow)
        with run_fails_with(ChangedWhileReadError, match=r"000001\.csv"):
            shop.run()

    assert head(shop.session, "lake.bronze.orders").snapshot_id is None
    assert list(local.glob("frazil-*")) == []
    assert shop.run().rows == 201


def test_the_driver_keeps_small_batches_and_passes_large_ones_on(shop: Shop) -> None:
    context = type("TableRun", (), {"spark": shop.session, "policy": Policy(driver_bytes=100)})()

    assert reader(context, 100) == "driver"
    assert reader(context, 101) == "stream"
