"""Collect changes of tables in columns and write them to Parquet files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.failpoints import failpoint
from frazil.sources.capture import TYPE_KEY, reveal
from frazil.sources.landed_files import note_landed
from frazil.sources.postgres.errors import ServerSetupError
from frazil.sources.postgres.landed.landing import hex_lsn, place_text, range_name
from frazil.sources.postgres.types import BYTEA, base_type, spark_type_of
from frazil.spec.model.kinds.postgres import COMMITTED_AT, OLD, OP, OWN_FIELDS, POSITION, UNCHANGED, XID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from frazil.sources.postgres.landed.pgoutput import Relation

GROUP_BYTES: Final = 32 * 1024 * 1024
"""Limit for messages in memory, for all tables together."""

FILE_ROWS: Final = 2_000_000
"""Limit for the rows of a file; one batch may exceed it."""

_BEFORE: Final = (OP, POSITION, COMMITTED_AT, XID, UNCHANGED)


def schema_of(
    columns: Sequence[str], types: Sequence[tuple[int, int]], old: Collection[int], **metadata: str
) -> pa.Schema:
    """Return the schema of a landing file: texts, with their Spark types in the metadata.

    Args:
        columns: columns of the table.
        types: number and modifier of each type, with domains resolved.
        old: indexes of the columns whose old values are included.
        metadata: metadata of the file.
    """
    kinds = [spark_type_of(oid, modifier) for oid, modifier in types]
    own = [(name, OWN_FIELDS[name]) for name in _BEFORE]
    beside = [*own, *((f"{OLD}{columns[at]}", kinds[at]) for at in old)]
    return pa.schema([*_typed_texts(beside), *schema_of_rows(columns, types)], metadata)


def schema_of_rows(columns: Sequence[str], types: Sequence[tuple[int, int]]) -> pa.Schema:
    """Return the schema of rows without Frazil's own fields; see :func:`schema_of`."""
    kinds = (spark_type_of(oid, modifier) for oid, modifier in types)
    return pa.schema(_typed_texts(zip(columns, kinds, strict=True)))


def _typed_texts(fields: Iterable[tuple[str, str]]) -> list[pa.Field]:
    return [pa.field(name, pa.string(), metadata={TYPE_KEY: kind}) for name, kind in fields]


def check_columns(table: str, columns: Sequence[str]) -> None:
    """Refuse columns whose names collide with Frazil's own fields.

    Raises:
        ServerSetupError: a column has such a name.
    """
    if taken := [name for name in columns if name.lower() in OWN_FIELDS or name.lower().startswith(OLD)]:
        raise ServerSetupError(
            f"{table}: column '{taken[0]}' has a name that landing files use themselves",
            hint="rename it, or leave it out by a column list of the publication",
        )


def hex_digits(column: Any) -> Any:
    r"""Return values of ``bytea``, such as ``\x00ff``, without the prefix."""
    return pc.utf8_slice_codeunits(column, 2)


class RangeFiles:
    """Files with the changes of a range of the WAL; the receiver of a :class:`Decoder`."""

    def __init__(
        self,
        span: tuple[int, int],
        era: int,
        tables: Mapping[int, TableRange],
        domains: Mapping[int, tuple[int, int]],
    ) -> None:
        self.records = 0
        self.files: list[tuple[Path, Path]] = []
        """(hidden path, final path) of each file."""
        (self.start, self.end), self.era, self.domains = span, era, domains
        self._tables = tables
        self._builders: list[Builder] = []
        self.transaction = ("", "", "")
        self.commit_lsn = 0
        self.gathered = 0

    def begin(self, commit_lsn: int, committed_at: str, xid: int) -> bool:
        """Begin a transaction; return False if it belongs to another range.

        Args:
            commit_lsn: position of the commit.
            committed_at: time of the commit as text.
            xid: number of the transaction.
        """
        self.commit_lsn = commit_lsn
        self.transaction = (place_text(commit_lsn, self.era), committed_at, f"{xid}")
        return self.start <= commit_lsn < self.end

    def relation(self, relation: Relation) -> Builder | None:
        """Return the builder for a table, found by its number; None if the table is not captured."""
        table = self._tables.get(relation.oid)
        if table is None:
            return None
        builder = table.builder(self, relation)
        if builder not in self._builders:
            self._builders.append(builder)
        return builder

    def write(self) -> None:
        """Write the collected changes."""
        for builder in self._builders:
            builder.write()
        self.gathered = 0

    def close(self) -> None:
        """Write the remaining changes and close all files."""
        self.write()
        for table in self._tables.values():
            table.close(self)

    def show(self) -> None:
        """Rename the files to their final paths. An existing file is equal; a killed capture renamed it."""
        for hidden, path in self.files:
            if path.exists():
                hidden.unlink()
            else:
                reveal(hidden, path)
            failpoint("capture.range_half_shown")
        for folder in {path.parent for _, path in self.files}:
            note_landed(folder, [path.name for _, path in self.files if path.parent == folder])


class TableRange:
    """The files of one table in one range.

    Args:
        folder: folder of the table.
        loaded_at: position of its initial rows, as sortable text.
        keys: declared keys.
        names: columns that the table has now and had before the range.

    Attributes:
        missed: why the changes do not say which rows they change, or to what; None if they do.
        absent: columns of ``names`` that some changes lack; they had other names then.
    """

    def __init__(self, folder: Path, loaded_at: str, keys: Collection[str], names: Collection[str] = ()) -> None:
        self.folder, self.loaded_at = folder, loaded_at
        self.missed: str | None = None
        self.absent: set[str] = set()
        self._keys = {key.lower() for key in keys}
        self._names = frozenset(names)
        self._builder: Builder | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = self._number = 0

    def builder(self, into: RangeFiles, relation: Relation) -> Builder:
        """Return the builder for the changes; a new one if the columns differ."""
        if self._builder is None or self._builder.relation != relation:
            if self._builder is not None:
                self._builder.write()
                self.close(into)
            check_columns(f"{relation.schema}.{relation.name}", relation.columns)
            # If changes carry the whole old row, only the key values are needed.
            old = tuple(
                place
                for place in relation.keys
                if not relation.is_full or relation.columns[place].lower() in self._keys
            )
            self._builder = Builder(into, self, relation, old)
        return self._builder

    def write(self, into: RangeFiles, rows: pa.RecordBatch) -> None:
        """Write a batch of rows."""
        if self._writer is None:
            self._number += 1
            path = self.folder / range_name(place_text(into.start, into.era), into.end, self._number)
            hidden = path.with_name(f".{path.name}.tmp")
            into.files.append((hidden, path))
            self._writer = pq.ParquetWriter(hidden, rows.schema, compression="zstd")
        self._writer.write_batch(rows)
        into.records += rows.num_rows
        self._rows += rows.num_rows
        if self._rows >= FILE_ROWS:
            self.close(into)

    def doubts(self, relation: Relation) -> tuple[frozenset[str], list[str]]:
        """Return the columns of ``names`` that changes lack, and the keys outside of their replica identity."""
        identity = {relation.columns[place] for place in relation.keys}
        others = [name for name in relation.columns if name.lower() in self._keys and name not in identity]
        # Without an identity, PostgreSQL refuses updates and deletes.
        return self._names.difference(relation.columns), others if identity else []

    def doubt(self, doubts: tuple[frozenset[str], list[str]], unsent: Sequence[str]) -> None:
        """Note what a change does not say.

        Args:
            doubts: doubts about its table, see :meth:`doubts`.
            unsent: columns that an insert does not carry.
        """
        absent, others = doubts
        self.absent |= absent
        if others:
            self.missed = f"its replica identity lacked key '{others[0]}' for a time"
        elif unsent:
            self.missed = f"an update moved a row into the row filter, and PostgreSQL did not send its long {unsent[0]}"

    def remove(self, into: RangeFiles) -> None:
        """Remove the hidden files."""
        for hidden, path in [*into.files]:
            if path.parent == self.folder:
                hidden.unlink()
                into.files.remove((hidden, path))

    def close(self, _: RangeFiles) -> None:
        """Close the current file."""
        if self._writer is not None:
            self._writer.close()
        self._writer, self._rows = None, 0


class Builder:
    """Collector of the changes of one table, column by column."""

    def __init__(self, into: RangeFiles, table: TableRange, relation: Relation, old: Sequence[int]) -> None:
        self.relation = relation
        self._into, self._table, self._old = into, table, old
        self._doubts = table.doubts(relation)
        types = [base_type(*kind, into.domains) for kind in relation.types]
        self._schema = schema_of(relation.columns, types, old, start=hex_lsn(into.start), end=hex_lsn(into.end))
        self._binary = [oid == BYTEA for oid, _ in types]
        self._lists: dict[tuple[int, ...], str] = {(): ""}
        self.values: list[list[bytes | None]] = [[] for _ in relation.columns]
        self.old: list[tuple[int, list[bytes | None]]] = [(place, []) for place in old]
        self._ops: list[str] = []
        self._positions: list[str] = []
        self._times: list[str] = []
        self._xids: list[str] = []
        self._unchanged: list[str | None] = []

    def add(self, op: str, sequence: int, unchanged: Sequence[int], size: int) -> bool:
        """Add the properties of a change, as :meth:`frazil.sources.postgres.landed.pgoutput.Rows.add`.

        Args:
            op: ``i``, ``u``, ``d`` or ``t``.
            sequence: number in the transaction, from 1.
            unchanged: indexes of the columns that the change does not carry.
            size: bytes of its message.
        """
        into = self._into
        commit_lsn, committed_at, xid = into.transaction
        long = unchanged if op == "i" else ()
        # Initial rows contain earlier changes.
        if (long or any(self._doubts)) and commit_lsn >= self._table.loaded_at:
            self._table.doubt(self._doubts, [self.relation.columns[place] for place in long])
        self._ops.append(op)
        self._positions.append(f"{commit_lsn}-{sequence:010d}")
        self._times.append(committed_at)
        self._xids.append(xid)
        self._unchanged.append(self._listed(tuple(unchanged)) if unchanged else None)
        into.gathered += size
        return into.gathered >= GROUP_BYTES

    def _listed(self, places: tuple[int, ...]) -> str:
        if places not in self._lists:
            self._lists[places] = json.dumps([self.relation.columns[place] for place in places], ensure_ascii=False)
        return self._lists[places]

    def write(self) -> None:
        """Write the collected changes, except those that the initial rows contain."""
        if not self._ops:
            return
        own = [self._ops, self._positions, self._times, self._xids, self._unchanged]
        columns = [pa.array(values, pa.string()) for values in own]
        columns += [_texts(values, binary=self._binary[place]) for place, values in self.old]
        columns += [
            _texts(values, binary=is_binary) for values, is_binary in zip(self.values, self._binary, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if place_text(self._into.start, self._into.era) < self._table.loaded_at:
            rows = rows.filter(pc.greater_equal(rows.column(POSITION), self._table.loaded_at))
        if rows.num_rows:
            self._table.write(self._into, rows)
        for texts in (self._ops, self._positions, self._times, self._xids, self._unchanged):
            texts.clear()
        for values in (*self.values, *(old for _, old in self.old)):
            values.clear()


def _texts(values: list[bytes | None], *, binary: bool) -> Any:
    # A database without an encoding may hold text that is not UTF-8. The reader of the files reports it by record.
    texts = pa.array(values, pa.binary()).view(pa.string())
    return hex_digits(texts) if binary else texts
