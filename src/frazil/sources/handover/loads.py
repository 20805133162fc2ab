"""The rows of one full load of Amazon DMS, as of a dump."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.sources.base import NewFile, SourceFile, snapshot_position, stored_path
from frazil.sources.dms.source import DmsSource
from frazil.sources.snapshot.dumps import UnreadableDumpError
from frazil.storage.files import HashedFile, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from frazil.sources.snapshot.dumps import Dump
    from frazil.spec import Table
    from frazil.storage.base import Found


class LoadReader:
    """The rows of a full load as texts, all files with the same columns; its op column is left out."""

    def __init__(self, dump: Dump, table: Table, folder: Path) -> None:
        self._source, self._folder, self._op = DmsSource(table), folder, table.source.op.lower()
        self._files = [self._looked_into(file) for file in dump.files]
        self._all = self._source.columns(self._files, ())
        self.columns: tuple[str, ...] = tuple(name for name in self._all if name.lower() != self._op)
        """Names of the fields."""
        self.types: dict[str, str] = {}
        """None: a handover takes types from the declaration."""
        self.unreadable: UnreadableDumpError | None = None

    def _looked_into(self, found: Found) -> NewFile:
        listed = SourceFile(
            path=stored_path(found.uri, self._folder),
            uri=found.uri,
            name=found.name,
            size_bytes=found.size_bytes,
            modified_ns=found.modified_ns,
            load=True,
            position=snapshot_position(found.name),
        )
        with storage_of(found.uri).open(found.uri) as raw:
            hashed = HashedFile(raw)
            content, sha256 = self._source.inspect(hashed, listed), hashed.sha256()
        if content.broken:
            raise UnreadableDumpError(listed.path, 1, content.broken)
        known = {field.name: getattr(listed, field.name) for field in fields(listed)}
        return NewFile(**known, sha256=sha256, columns=content.columns)

    def batches(self, names: Sequence[str], schema: Any) -> Iterator[Any]:
        """Yield the rows as record batches, as :meth:`frazil.sources.snapshot.dumps.DumpReader.batches` does."""
        for file in self._files:
            for parsed in self._source.read(file, self._all).reader:
                if parsed.bad:
                    bad = parsed.bad[0]
                    # Raised by the caller: what is raised in here reaches it as DuckDB's error.
                    self.unreadable = UnreadableDumpError(file.path, bad.row, bad.reason)
                    return
                here = {name.lower(): values for name, values in parsed.fields.items()}
                none = pa.nulls(len(parsed.rows), pa.string())
                arrays = [here.get(name.lower(), none) for name in names]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
