"""Files at the source are only listed by an erase: a store that cannot be asked does not stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.cli.commands.erase import show_erase
from frazil.erase.erase import FILES_SHOWN, SourceFiles, existing_files
from frazil.erase.report import EraseReport
from frazil.storage.store_client import ObjectStoreError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_files_of_a_store_that_refuses_are_unseen_and_it_is_asked_once(tmp_path: Path) -> None:
    (tmp_path / "here.csv").touch()
    asked: list[str] = []

    def address(path: str) -> str:
        asked.append(path)
        if path.startswith("s3://"):
            raise ObjectStoreError(path, OSError("<Code>NoSuchBucket</Code>"))
        return f"{tmp_path / path}"

    paths = ["gone.csv", "here.csv", "here.csv/below.csv", "s3://b/1.csv", "s3://b/2.csv", "s3://other/3.csv"]
    found = existing_files(paths, address)

    assert found == SourceFiles(there=("here.csv",), unseen=("s3://b/1.csv", "s3://b/2.csv", "s3://other/3.csv"))
    assert asked == ["gone.csv", "here.csv", "here.csv/below.csv", "s3://b/1.csv", "s3://other/3.csv"]


def test_a_thousand_existing_files_are_shown_after_missing_ones(tmp_path: Path) -> None:
    (tmp_path / "here.csv").touch()
    gone, there = [f"gone-{number}" for number in range(FILES_SHOWN)], ["here.csv"] * (FILES_SHOWN + 1)

    found = existing_files([*gone, *there], lambda path: f"{tmp_path / path}")

    assert found == SourceFiles(there=tuple(there[1:]))
    assert len(existing_files([f"x://b/{number}" for number in range(2 * FILES_SHOWN)], str).unseen) == FILES_SHOWN


def test_people_read_which_files_could_not_be_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    show_erase(EraseReport(table="t", subjects=1, layers=(), files=("a.csv",), unseen=("s3://b/1.csv", "s3://b/2.csv")))

    assert capsys.readouterr().out.splitlines()[-5:] == [
        "1 file at the source holds records of these keys, and stays as it is:",
        "  a.csv",
        "2 files at the source could not be looked at, and may hold records of these keys:",
        "  s3://b/1.csv",
        "  s3://b/2.csv",
    ]
