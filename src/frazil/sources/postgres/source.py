"""Landing files of PostgreSQL as a source, and the removal of erased records from them."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.formats.parquet_file import ParquetFile, opened
from frazil.formats.records import Changed, NotErased, equals
from frazil.sources.base import PlainMeaning, RecordMeaning, SourceFile, change_position, snapshot_position
from frazil.sources.capture import reveal
from frazil.sources.postgres.landed.landing import (
    LOAD,
    RELOAD,
    RESTART,
    Landing,
    landed_of,
    lost_landing,
    verify_landing,
)
from frazil.sources.record_files import PARQUET, RecordFiles, with_types
from frazil.spec.location import locate
from frazil.spec.model.kinds.postgres import COMMITTED_AT, ERASED, OLD, OP, POSITION, UNCHANGED
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from frazil.formats.records import Parsed, RecordReader
    from frazil.sources.base import FileRecords, NewFile, SourceDelta
    from frazil.sources.ledger import Ledger
    from frazil.sources.new_files import Content
    from frazil.sources.postgres.database.known import Known
    from frazil.spec.model.kinds import Postgres
    from frazil.storage.base import Entry, Found
    from frazil.storage.files import HashedFile


class PostgresSource(RecordFiles):
    """Initial rows (``r``) and changes (``i``, ``u``, ``d``, ``t``) of one table.

    The place of a change is the commit position of its transaction and its number in the transaction. Initial rows come
    before all changes. Rows that were read again, with the truncate before them, have the place of their snapshot.
    """

    settle_seconds = 0.0

    def entries(self, declared: str, folder: Path) -> Iterable[Entry]:
        """Find the landing files; empty before the first capture."""
        place = locate(declared, setting="landing", folder=folder).path
        return super().entries(declared, folder) if place is None or place.is_dir() else ()

    def _source_file(self, path: str, found: Found) -> SourceFile:
        file = super()._source_file(path, found)
        *_, parent, name = path.split("/")
        if parent.startswith(LOAD):
            return replace(file, load=True, position=snapshot_position(f"{parent}/{name}"))
        if parent.startswith((RELOAD, RESTART)):
            return replace(file, position=change_position(f"{parent.partition('-')[2]}/{name}"))
        return file

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have; add notes about missing columns and a renamed table.

        Raises:
            SlotLostError: bronze has files from another landing folder, or from one that was lost; or a file was lost.
        """
        found = super().find_new(folder, ledger)
        self.verify_landing(folder, ledger.files, [file.path for file in found.files])
        known, notes = self._known(folder), list[str]()
        if known is not None and known.generated and any(_is_rows(file) for file in found.files):
            names = ", ".join(known.generated)
            notes.append(f"generated columns are not captured: PostgreSQL does not send them ({names})")
        if known is not None and found.files and known.place != self.table.source.schema_and_name:
            notes.append(f"its table is called {'.'.join(known.place)} now; it is followed by its number")
        return replace(found, notes=tuple(notes))

    def verify_landing(self, folder: Path, taken: Collection[str], new: Collection[str]) -> None:
        """Refuse a folder without files that were landed and not taken, and rows of a table that has some."""
        verify_landing(self.table, folder, taken)
        if any(_parent(path).startswith((RELOAD, RESTART)) for path in new):
            return  # all rows were read again
        landed = landed_of(self.table, taken)
        for path in new:
            if not _parent(path).startswith(LOAD):
                continue
            if landed and all(_parent(known) != _parent(path) for known in landed):
                raise lost_landing(self.table, path.rpartition(_parent(path))[0])

    def left_out(self, folder: Path) -> tuple[str, ...]:
        """Return the columns that the server computes and does not send."""
        known = self._known(folder)
        return known.generated if known is not None else ()

    def _known(self, folder: Path) -> Known | None:
        source: Postgres = self.table.source
        place = locate(source.landing, setting="landing", folder=folder).path
        state = Landing(place, source.slot).state() if place is not None else None
        return state.known.get(".".join(source.schema_and_name)) if state is not None else None

    def inspect(self, hashed: HashedFile, file: SourceFile) -> Content:
        """Inspect a file; its columns have the types of the database."""
        content = super().inspect(hashed, file)
        return content if content.broken else replace(content, columns=with_types(file, content.columns))

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the columns that a file names, with the types of the database; None if it cannot be read."""
        named = super().named_fields(file)
        return None if named is None else with_types(file, named)

    def order_field(self) -> str:
        """Return the field with the place of each change."""
        return POSITION

    def read(self, file: NewFile, columns: Sequence[str], **limits: int) -> FileRecords:
        """Open a file that is not broken.

        Args:
            file: file from :meth:`find_new`.
            columns: bronze's columns.
            limits: ``block_bytes`` and ``record_bytes`` of the format, for tests.
        """
        return replace(super().read(file, columns, **limits), lists=True)

    def open(self, file: SourceFile, names: tuple[str, ...], **limits: int) -> RecordReader:
        """Open a file without the records that an erase has emptied.

        Args:
            file: file to open.
            names: columns of its own fields, in file order.
            limits: as for :meth:`read`.
        """
        operation = next((name for name in names if name.lower() == OP), None)
        if operation is None or not file.name.lower().endswith(PARQUET):
            return super().open(file, names, **limits)
        return ParquetFile(file.uri, names, own=NotErased(field=operation, mark=ERASED))

    def is_emptied(self, path: Path, rows: Collection[int]) -> bool:
        """Return True if some records of a file have no content left."""
        return is_emptied(path, rows)

    def empty(self, path: Path, rows: Collection[int], before: str) -> None:
        """Remove the content of some records; their positions stay.

        Args:
            path: landing file.
            rows: row numbers of the records, from 1.
            before: hash of the file that bronze took.
        """
        empty(path, rows, before)

    def emptied_from(self, uri: str) -> str | None:
        """Return the hash that bronze has for a file that was emptied since; None for any other file."""
        return emptied_from(uri)

    def unfold(self, reader: RecordReader, file: NewFile, columns: Mapping[str, str]) -> RecordReader:
        """Return a reader that lists the columns of each change.

        Args:
            reader: reader of the file.
            file: file of the reader.
            columns: lower-case name of a field -> its column in bronze.
        """
        own = [columns[name.lower()] for name, _ in file.columns]
        return Changed(reader, lambda parsed: _with_lists(parsed, own, columns.get(UNCHANGED)))

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return the meaning of the op, and the columns with keys before a change."""
        del position
        change_class = (
            "CASE WHEN _cdc_op IN ('r', 'i', 'u') THEN 'upsert' WHEN _cdc_op = 'd' THEN 'delete' "
            "WHEN _cdc_op = 't' THEN 'truncate' END"
        )
        operation = quote(fields[OP]) if OP in fields else "CAST(NULL AS string)"
        names = {key: f"{OLD}{key}".lower() for key in self.table.keys}
        old = {key: fields[name] for key, name in names.items()} if {*names.values()} <= {*fields} else {}
        told = fields.get(COMMITTED_AT)
        classes = {"r": "upsert", "i": "upsert", "u": "upsert", "d": "delete"}
        return RecordMeaning(
            operation=operation,
            change_class=change_class,
            old_keys={key: quote(name) for key, name in old.items()},
            happened="CAST(NULL AS string)" if told is None else quote(told),
            plain=PlainMeaning(operation=fields.get(OP), classes=classes, old_keys=old, happened=told),
        )

    def reading(self) -> dict[str, Any]:
        """Return the landing folder, the only setting that determines the records."""
        return {"path": [*self.table.source.locations["landing"]], "by_place": False}


def _parent(path: str) -> str:
    """Return the name of a landing file's folder."""
    return path.split("/")[-2]


def _is_rows(file: SourceFile) -> bool:
    """Return True if a file has rows of the table, not changes."""
    return file.path.split("/")[-2].startswith((LOAD, RELOAD, RESTART))


def _with_lists(parsed: Parsed, own: Sequence[str], unchanged: str | None) -> Parsed:
    """List the columns that each record carries: all except those that it marks as unchanged."""
    lists = parsed.fields.get(unchanged) if unchanged else None
    if lists is None or lists.null_count == len(lists):
        return parsed
    distinct = lists.dictionary_encode()
    carried = [_carried(text, own) for text in distinct.dictionary.to_pylist()]
    carried.append([*own])
    places = distinct.indices.fill_null(len(carried) - 1)
    return replace(parsed, known=pa.array(carried, pa.list_(pa.string())).take(places))


def _carried(unchanged: str, own: Sequence[str]) -> list[str]:
    """Return the columns that a record carries, given the JSON list of those that it does not."""
    missing = {name.lower() for name in json.loads(unchanged)}
    return [name for name in own if name.lower() not in missing]


_BEFORE: Final = b"frazil.emptied_from"
"""Metadata key with the hash of the file that bronze took."""

_BATCH_ROWS: Final = 65_536


def is_emptied(path: Path, rows: Collection[int]) -> bool:
    """Return True if some records of a file have no content left.

    Args:
        path: landing file.
        rows: row numbers of the records, from 1.

    Cost: reads one column.
    """
    with closing(opened(f"{path}")) as file:
        wanted = [*rows]
        return all(
            equals(batch.column(0), ERASED)[places].all() for batch, places in _places(file, wanted, columns=[OP])
        )


def empty(path: Path, rows: Collection[int], before: str) -> None:
    """Remove the content of some records and keep their positions. The file is complete at any time.

    Args:
        path: landing file.
        rows: row numbers of the records, from 1.
        before: hash of the file that bronze took.

    Cost: one pass over the file; memory for a row group.
    """
    is_in_folder = path.parent.name.startswith((LOAD, RELOAD, RESTART))
    table = path.parent.parent if is_in_folder else path.parent
    # Next to the folder of the table, because a capture removes unfinished files inside it.
    hidden = table.with_name(f".{table.name}.emptied.tmp")
    with closing(opened(f"{path}")) as file:
        fields = file.schema_arrow
        schema = fields.with_metadata({**(fields.metadata or {}), _BEFORE: before.encode()})
        with pq.ParquetWriter(hidden, schema, compression="zstd") as writer:
            for batch, places in _places(file, [*rows]):
                writer.write_batch(_without(batch, places, schema))
    reveal(hidden, path)


def emptied_from(uri: str) -> str | None:
    """Return the hash that bronze has for a file that was emptied since; None for any other file."""
    try:
        with closing(opened(uri)) as file:
            found = (file.schema_arrow.metadata or {}).get(_BEFORE)
    except (pa.ArrowException, OSError):
        return None
    return None if found is None else str(found.decode())


def _places(file: Any, rows: Collection[int], columns: list[str] | None = None) -> Iterator[tuple[Any, Any]]:
    """Yield a file in batches, each with a mask of the records whose row numbers are in ``rows``."""
    row, wanted = 1, np.asarray(rows, dtype=np.int64)
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns, use_threads=False):
        yield batch, np.isin(np.arange(row, row + batch.num_rows), wanted)
        row += batch.num_rows


def _without(batch: Any, places: Any, schema: pa.Schema) -> pa.RecordBatch:
    mask, columns = pa.array(places), []
    for field, column in zip(schema, batch.columns, strict=True):
        left = column if field.name == POSITION else pa.scalar(ERASED if field.name == OP else None, field.type)
        columns.append(pc.if_else(mask, left, column))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
