"""Runs that are to fail, and with what; and what runs leave that were killed, or whose machine lost its power."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest

import frazil
from frazil.catalog.warehouse import newest_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random


@contextmanager
def run_fails_with(
    kind: type[Exception], match: str | None = None
) -> Iterator[pytest.ExceptionInfo[frazil.RunFailedError]]:
    """Expect a run in which tables, marts or aggregates fail, all with errors of one kind."""
    with pytest.raises(frazil.RunFailedError, match=match) as caught:
        yield caught
    causes = [error if isinstance(error, kind) else error.__cause__ for error in caught.value.errors]
    assert all(isinstance(cause, kind) for cause in causes), caught.value


def leave_half_a_version(table_folder: Path, share: float) -> None:
    """Leave a share of the bytes of a table's next version, as a run does that is killed while it writes that."""
    newest = newest_version(table_folder)
    if newest is not None:
        text = newest.path.read_bytes()
        half = newest.path.with_name(f"{newest.number + 1:05}-{uuid4()}.metadata.json")
        half.write_bytes(text[: int(share * len(text))])


_LEFT: Final = ("all", "some", "nothing", "nothing", "no name")


class Disk:
    """What the disk has of a lake, and what only the memory of the machine has."""

    def __init__(self, lake: Path, patch: pytest.MonkeyPatch) -> None:
        self.lake = lake
        self._had: dict[str, tuple[int, int]] = {}
        self._has = self._had
        patch.setattr("frazil.iceberg.files._syncfs", lambda: self._sync)

    def _sync(self, _: int) -> int:
        self._had, self._has = self._has, self._files()
        return 0

    def _files(self) -> dict[str, tuple[int, int]]:
        """Return size and time of every file; a catalog sees itself to it that the disk has it."""
        found, folders = dict[str, tuple[int, int]](), [f"{self.lake}"]
        while folders:
            for entry in os.scandir(folders.pop()):
                if entry.is_dir():
                    folders.append(entry.path)
                elif not entry.name.startswith("catalog.db"):
                    stat = entry.stat()
                    found[entry.path] = (stat.st_size, stat.st_mtime_ns)
        return found

    def lose_power(self, chance: Random | None = None, *, has_ended: bool = False) -> None:
        """Leave of each file that the disk has not all of it, or some, or nothing; or not even its name.

        Args:
            chance: draws the bytes that remain; None for no bytes.
            has_ended: the run had ended. One that only failed in a test lets go of its lock too, and then the disk gets
                all; one that a cut ends does not come to that.
        """
        kept = self._has if has_ended else self._had
        for name, state in sorted(self._files().items()):
            if kept.get(name) != state:
                left, share = (chance.choice(_LEFT), chance.random()) if chance else ("nothing", 0.0)
                if left == "no name":
                    Path(name).unlink()
                elif left != "all":
                    os.truncate(name, int(share * state[0]) if left == "some" else 0)
