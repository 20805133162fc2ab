"""Files of tables in stores are read once, and only so many are kept."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

import pytest

from frazil.iceberg import files
from frazil.iceberg.files import keep_written, read_kept
from frazil.spec.model.stores import StoreAccess
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from pathlib import Path

ACCESS = StoreAccess(scheme="s3", bucket="lake")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was read; each has ten bytes but those that are named after their size."""
    reads = Counter[str]()

    def read(location: str) -> bytes:
        reads[f"{location}"] += 1
        return b"x" * (int(location.rpartition("/")[2]) if location[-1].isdigit() else 10)

    monkeypatch.setattr(files, "read_file", read)
    monkeypatch.setattr(files, "_kept", OrderedDict())
    return reads


def stored(name: str) -> StoreAddress:
    return StoreAddress(f"s3://lake/{name}", ACCESS)


def test_a_file_in_a_store_is_read_once(reads: Counter[str]) -> None:
    assert [read_kept(stored(name)) for name in ("a", "b", "a", "a")] == [b"x" * 10] * 4

    assert reads == {"s3://lake/a": 1, "s3://lake/b": 1}


def test_local_files_and_large_ones_are_read_each_time(reads: Counter[str]) -> None:
    large = f"{files.SMALL_BYTES + 1}"
    for location in ("/lake/a", stored(large)) * 2:
        read_kept(location)

    assert reads == {"/lake/a": 2, f"s3://lake/{large}": 2}


def test_the_least_recently_used_file_is_evicted(reads: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_KEPT_BYTES", 25)
    for name in ("a", "b", "a", "c", "a", "b"):
        read_kept(stored(name))

    assert reads == {"s3://lake/a": 1, "s3://lake/b": 2, "s3://lake/c": 1}


def test_small_written_files_are_read_from_memory(reads: Counter[str], tmp_path: Path) -> None:
    """Local files need no cache, and large ones may never be read."""
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"small")
    large.write_bytes(b"x" * (files._WRITTEN_BYTES + 1))
    for address, file in (("s3://lake/a", small), ("s3://lake/b", large), ("/lake/c", small)):
        keep_written(address, file)

    assert read_kept(stored("a")) == b"small"
    read_kept(stored("b"))
    read_kept("/lake/c")
    assert reads == {"s3://lake/b": 1, "/lake/c": 1}
