"""Keep a file as it is stored, where nothing in it can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.formats.csv.lines import BLOCK_BYTES, KEPT_BYTES
from frazil.formats.records import BYTES, Bad, Parsed, Part
from frazil.storage.files import storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class WholeFile:
    """A file as one bad record: its first bytes in its row, the others in parts."""

    head: Final = None

    def __init__(self, uri: str, reason: str) -> None:
        self._uri, self._reason = uri, reason

    def form(self) -> dict[str, Any]:
        """Return that the file is kept as it is stored."""
        return {"content": BYTES}

    def __iter__(self) -> Iterator[Parsed]:
        """Yield the bad record, then its parts.

        Raises:
            OSError: the file cannot be read.
        """
        with storage_of(self._uri).open(self._uri) as stored:
            yield Parsed(bad=[Bad(1, self._reason, stored.read(KEPT_BYTES))])
        yield from parts_of(self._uri, 1, KEPT_BYTES)


def parts_of(uri: str, row: int, start: int = 0) -> Iterator[Parsed]:
    """Yield the bytes of a file from an offset on as parts of a row.

    Args:
        uri: the file.
        row: ordinal of the row that the parts belong to.
        start: offset of the first byte.
    """
    offset = 0
    with storage_of(uri).open(uri) as stored:
        stored.seek(start)
        while data := stored.read(BLOCK_BYTES):
            yield Parsed(parts=[Part(row, offset, data)])
            offset += len(data)
