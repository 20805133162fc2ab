"""How far the reading of a batch's files is, for people who wait."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from frazil.spec.amount import counted, sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from frazil.sources.base import NewFile


class Reading:
    """Counts what is read of some files, in any number of threads, and tells it piece by piece."""

    def __init__(self, files: Sequence[NewFile], tell: Callable[[str], None]) -> None:
        self._tell, self._lock = tell, Lock()
        self._files, self._size_bytes = len(files), sum(file.size_bytes for file in files)
        self._read_files = self._read_bytes = self._rows = 0

    def of(self, read: Callable[[NewFile], Iterable[pa.RecordBatch]], file: NewFile) -> Iterator[pa.RecordBatch]:
        """Pass on the rows of one file."""
        for rows in read(file):
            self._add(rows=rows.num_rows)
            yield rows
        self._add(files=1, size_bytes=file.size_bytes)

    def _add(self, *, rows: int = 0, files: int = 0, size_bytes: int = 0) -> None:
        with self._lock:
            self._rows += rows
            self._read_files += files
            self._read_bytes += size_bytes
            share = self._read_bytes / self._size_bytes if self._size_bytes else 1.0
            self._tell(
                f"{self._read_files:,} of {counted(self._files, 'file')}, "
                f"{sized(self._read_bytes)} of {sized(self._size_bytes)} ({share:.0%}), {counted(self._rows, 'row')}"
            )
