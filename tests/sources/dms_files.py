"""Files of DMS, their known state, and the files that a run takes."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING
from unittest.mock import patch

from frazil.bronze.read import Batch
from frazil.sources.dms.layout import list_files
from frazil.sources.dms.source import DmsSource
from frazil.sources.ledger import KnownFile, Ledger
from frazil.sources.new_files import Copies, find_new
from frazil.spec import DmsFiles, Table

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.sources.base import Listing, NewFile, SourceDelta

SOURCE = DmsFiles(path=("in",), header=True)
T0 = 1_700_000_000
"""When the files of these tests were written, in seconds since 1970."""

MUCH_LATER = T0 + 1e6
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def put(folder: Path, tree: dict[str, bytes], at: float = T0) -> None:
    for path, content in tree.items():
        file = folder / "in" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (at, at))


def ledger_of(*files: NewFile) -> Ledger:
    known = {
        file.path: KnownFile(
            size_bytes=file.size_bytes, modified_ns=file.modified_ns, sha256=file.sha256, same_as=file.same_as
        )
        for file in files
    }
    return Ledger(files=known)


def take(listing: Listing, ledger: Ledger, source: DmsFiles = SOURCE, now: float = MUCH_LATER) -> SourceDelta:
    table = Table(name="hosts", source=source, keys=("id",))
    with patch("time.time", return_value=now):
        return find_new(
            listing,
            ledger,
            DmsSource(table).inspect,
            settle_seconds=source.settle_seconds,
            copies=Copies(named_delivery=source.named_delivery),
        )


def take_all(folder: Path, *known: NewFile, now: float = MUCH_LATER, source: DmsFiles = SOURCE) -> SourceDelta:
    return take(list_files(source, folder), ledger_of(*known), source, now)


def what(delta: SourceDelta) -> tuple[object, ...]:
    return delta.files, delta.duplicates, delta.deferred


def batch_of(table: Table, *files: NewFile) -> Batch:
    source = DmsSource(table)
    return Batch(source=source, columns=source.columns(files, ()), number=1, arrived_at=NOW)


def names(files: tuple[NewFile, ...]) -> list[str]:
    return [file.path.removeprefix("in/") for file in files]
