"""What is known of files that were taken."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import HistoryChangedError

if TYPE_CHECKING:
    from pathlib import Path


class FileChangedError(HistoryChangedError):
    """A file that was taken has other content now."""

    code = "FZ701"

    def __init__(self, path: str, before: str, now: str) -> None:
        self.path, self.before, self.now = path, before, now
        super().__init__(
            f"{path}: content changed after it was taken (sha256 {before[:12]} then, {now[:12]} now)",
            hint="put the old content back and deliver the new records under a new name; or, if the first upload was "
            "cut off, read all files of the table again: frazil drop --select TABLE, then frazil run",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """A file as the ledger knows it; ``same_as`` names the file it was a duplicate of."""

    size_bytes: int
    modified_ns: int
    sha256: str
    same_as: str | None = None


def stored_path(uri: str, folder: Path) -> str:
    """Path as it is shown and stored: relative to ``folder`` when below it, else absolute; parts by ``/``."""
    prefix = f"{str(folder).rstrip(os.sep)}{os.sep}"
    return uri.removeprefix(prefix).replace(os.sep, "/")
