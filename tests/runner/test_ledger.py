"""A process that goes on running knows what it took without asking the lake again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.runner.batch import bronze_records
from frazil.sources import new_files
from frazil.spark.session import spark_session
from frazil.storage.files import sha256_of

if TYPE_CHECKING:
    from tests.shop import Shop

    from frazil.plan.policy import Reader
    from frazil.runner.table_run import TableRun
    from frazil.sources.ledger import Ledger

PATH = ("lake", "bronze", "orders")


def _record(number: int) -> str:
    return f"U,{number},2026-01-02 00:00:00,note"


def _sorted(ledger: Ledger) -> tuple[object, ...]:
    return dict(sorted(ledger.files.items())), dict(sorted(ledger.places.items())), sorted(ledger.again)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note how often the ledger is read from a table, by a process that knows none yet."""
    monkeypatch.setattr(bronze_records, "_known_ledgers", {})
    right, seen = bronze_records._read_all, list[str]()

    def read(context: TableRun) -> Ledger:
        seen.append(context.table.name)
        return right(context)

    monkeypatch.setattr(bronze_records, "_read_all", read)
    return seen


@pytest.mark.long
@pytest.mark.parametrize(
    "who", ["driver", *(pytest.param(who, marks=pytest.mark.laws) for who in ("stream", "executors"))]
)
def test_the_ledger_in_memory_equals_the_lakes_ledger(who: Reader, shop: Shop, reads: list[str]) -> None:
    """ONCE: new files, one that comes again earlier and later, and an empty one."""
    shop = shop.by(reader=who)
    for number in (2, 3, 4):
        shop.land(f"20260102-00000{number}.csv", *([_record(number)] if number != 3 else []))
        shop.run()
    shop.land("20260102-000001.csv", _record(2))
    shop.land("20260102-000009.csv", _record(4))
    shop.run()

    snapshot, kept = bronze_records._known_ledgers.pop(PATH, (None, None))
    assert len(reads) == (3 if who == "executors" else 0)
    before = len(reads)
    assert not shop.run_again()
    assert len(reads) == before + 1
    at, read = bronze_records._known_ledgers[PATH]
    assert len(read.files) == 5
    if who != "executors":
        assert (snapshot, kept is not None and _sorted(kept)) == (at, _sorted(read))


@pytest.mark.laws
def test_another_lake_with_the_same_names_has_its_own_ledger(shop: Shop, reads: list[str]) -> None:
    """ONCE: the ledger is asked for where the newest snapshot is not the one that is known."""
    shop.land("20260102-000001.csv", _record(1))
    shop.run()
    other = shop.pipeline.folder.parent / f"{shop.pipeline.folder.name}_other"
    other.mkdir()
    shutil.copy(shop.pipeline.folder / "frazil.yml", other)
    shutil.copytree(shop.pipeline.folder / "landing", other / "landing")
    pipeline = frazil.load(other)

    [table] = frazil.run(pipeline, spark=spark_session(pipeline)).tables
    assert table.files == 1
    shop.land("20260102-000002.csv", _record(2))
    assert shop.run().files == 1
    assert len(reads) == 1


def test_a_file_that_was_only_touched_is_read_once_more(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restoring a landing folder gives all files a new time; a process that watches it reads them all, once."""
    read: list[str] = []

    def count(uri: str) -> str:
        read.append(uri)
        return sha256_of(uri)

    monkeypatch.setattr(new_files, "sha256_of", count)
    shop.land("20260102-000001.csv", _record(1))
    shop.run()
    for _ in range(2):
        shop.land("20260102-000001.csv", _record(1))
        assert not shop.run_again()
        assert not shop.run_again()
    assert len(read) == 2
