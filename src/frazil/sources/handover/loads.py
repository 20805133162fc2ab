"""The rows of one full load of Amazon DMS, as of a dump."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.sources.base import snapshot_position
from frazil.sources.dms.source import DmsSource
from frazil.sources.snapshot.dumps import UnreadableDumpError, inspected, record_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from frazil.sources.snapshot.dumps import Dump
    from frazil.spec import Table


class LoadReader:
    """The rows of a full load as texts, all files with the same columns; its op column is left out."""

    def __init__(self, dump: Dump, table: Table, folder: Path) -> None:
        self._source, self._op = DmsSource(table), table.source.op.lower()
        self._files = [
            inspected(file, folder, self._source.inspect, snapshot_position(file.name)) for file in dump.files
        ]
        self._all = self._source.columns(self._files, ())
        self.columns: tuple[str, ...] = tuple(name for name in self._all if name.lower() != self._op)
        """Names of the fields."""
        self.types: dict[str, str] = {}
        """None: a handover takes types from the declaration."""
        self.unreadable: UnreadableDumpError | None = None

    def batches(self, names: Sequence[str], schema: Any) -> Iterator[Any]:
        """Yield the rows as record batches, as :meth:`frazil.sources.snapshot.dumps.DumpReader.batches` does."""
        opened = ((file.path, self._source.read(file, self._all).reader) for file in self._files)
        try:
            yield from record_batches(opened, names, schema)
        except UnreadableDumpError as error:
            self.unreadable = error
