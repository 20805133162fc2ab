"""How far the reading of files is."""

from __future__ import annotations

import pyarrow as pa

from frazil.runner.steps.ingest import Reading
from frazil.sources.base import NewFile


def file(name: str, size_bytes: int) -> NewFile:
    return NewFile(
        path=name, uri=name, name=name, size_bytes=size_bytes, modified_ns=0, load=False, position=name, sha256=name
    )


def test_progress_counts_rows_as_they_come_and_bytes_by_file() -> None:
    told: list[str] = []
    files = [file("a", 3_000), file("b", 1_000)]
    reading = Reading(files, told.append)
    rows = pa.record_batch({"n": [1, 2]})

    passed = [batch for one in files for batch in reading.of(lambda _: [rows, rows], one)]

    assert passed == [rows] * 4
    assert told == [
        "0 of 2 files, 0 B of 4.0 kB (0%), 2 rows",
        "0 of 2 files, 0 B of 4.0 kB (0%), 4 rows",
        "1 of 2 files, 3.0 kB of 4.0 kB (75%), 4 rows",
        "1 of 2 files, 3.0 kB of 4.0 kB (75%), 6 rows",
        "1 of 2 files, 3.0 kB of 4.0 kB (75%), 8 rows",
        "2 of 2 files, 4.0 kB of 4.0 kB (100%), 8 rows",
    ]
