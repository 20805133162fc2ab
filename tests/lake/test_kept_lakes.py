"""Lakes that earlier versions wrote open: they are read, proven, and planned on."""

from __future__ import annotations

import fcntl
import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from frazil import api
from frazil.iceberg.snapshot import LAKE_FORMAT, NewerLakeError, bookmark_text, read_bookmark

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT = sorted((Path(__file__).parent / "kept").glob("lake-*.tar.xz"))
"""One a version, of the folder below: Iceberg's files name each other by their whole paths."""
NEXT = "op,id,qty,ts\nU,3,33,2026-01-03 00:00:00\n"


@pytest.fixture(params=KEPT, ids=lambda path: path.name.removesuffix(".tar.xz"))
def kept(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The project with a kept lake, where it was written; only one test of this machine has it at a time."""
    folder = Path("/tmp") / f"frazil-{request.param.name.removesuffix('.tar.xz')}"  # noqa: S108 - in the lake's files
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(request.param) as files:
            files.extractall(folder, filter="data")
        yield folder
        shutil.rmtree(folder)


def rows(folder: Path, mart: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in api.query(folder, f"select id, qty from marts.{mart} order by 1, 2").rows]


def test_a_kept_lake_is_read_proven_and_gone_on_with(kept: Path) -> None:
    assert rows(kept, "orders") == [(1, 11), (3, 30)]
    assert rows(kept, "orders_history") == [(1, 10), (1, 11), (2, 20), (3, 30)]
    assert [rule.records for rule in api.quarantine(kept).rules] == [1]
    assert [finding for finding in api.check(kept) if finding.ok is not True] == []

    (kept / "landing" / "20260103-000000000.csv").write_text(NEXT, encoding="utf-8")
    steps = api.plan(kept).steps

    assert steps
    assert [step for step in steps if getattr(step, "rebuild", False)] == []


def test_a_bookmark_has_the_version_of_the_lake() -> None:
    text = bookmark_text({"batch": 3})

    assert json.loads(text) == {"batch": 3, "format": LAKE_FORMAT}
    assert read_bookmark(text) == read_bookmark('{"batch":3}') == {"batch": 3}


def test_a_lake_of_a_newer_version_is_refused() -> None:
    with pytest.raises(NewerLakeError, match="format 99"):
        read_bookmark('{"batch":3,"format":99}')
