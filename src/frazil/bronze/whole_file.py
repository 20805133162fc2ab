"""Keep a file as it is stored, where nothing in it can be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from frazil.bronze.csv_lines import BLOCK_BYTES, KEPT_BYTES
from frazil.bronze.parsed import Bad, Parsed, Part

if TYPE_CHECKING:
    from collections.abc import Iterator


class WholeFile:
    """A file as one bad record: its first bytes in its row, the others in parts."""

    def __init__(self, uri: str, reason: str) -> None:
        self._uri, self._reason = uri, reason

    def __iter__(self) -> Iterator[Parsed]:
        """Give the bad record, then its parts.

        Raises:
            OSError: the file cannot be read.
        """
        with Path(self._uri).open("rb") as stored:
            yield Parsed(bad=[Bad(1, self._reason, stored.read(KEPT_BYTES))])
        yield from parts_of(self._uri, 1, KEPT_BYTES)


def parts_of(uri: str, row: int, start: int = 0) -> Iterator[Parsed]:
    """Give the bytes of a file from some place on as parts of a row."""
    offset = 0
    with Path(uri).open("rb") as stored:
        stored.seek(start)
        while data := stored.read(BLOCK_BYTES):
            yield Parsed(parts=[Part(row, offset, data)])
            offset += len(data)
