"""Copy the rows of a table from one snapshot of the database into Parquet files."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from psycopg import sql

from frazil.sources.postgres.database.server import open_session
from frazil.sources.postgres.landed.files import hex_digits, schema_of, schema_of_rows
from frazil.sources.postgres.landed.landing import hex_lsn
from frazil.sources.postgres.types import BYTEA, base_type
from frazil.spec.model.kinds.postgres import COMMITTED_AT, OP, POSITION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from psycopg import Copy

    from frazil.sources.postgres.database.server import ServerTable

_PART_PAGES: Final = 32_768
"""Pages that one session copies into one file: 256 MB in pages of 8 kB."""

_BLOCK_BYTES: Final = 8 * 1024 * 1024
_MOST_BLOCK_BYTES: Final = 2**31 - 2
_WORKERS: Final = 4
_RATIO: Final = 8

_REWRITTEN: Final = """
SELECT coalesce(to_regclass(%(table)s)::oid::int8 <> %(oid)s, true)
    OR count(*) FILTER (WHERE relfilenode <> pg_relation_filenode(oid)) > 0 FROM pg_class
WHERE oid = to_regclass(%(table)s) AND relkind = 'r'
    OR oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)) WHERE isleaf)"""
"""A TRUNCATE, or an ALTER TABLE that rewrites rows, hides them from older snapshots too. The catalog in the snapshot
has the old file of a table, the function returns the current one. Another table may have its name by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSnapshot:
    """A snapshot of a database.

    Attributes:
        url: address of the database.
        name: name for other sessions to import it.
        read_at: time of the snapshot, as text.
        domains: see :func:`frazil.sources.postgres.types.base_type`.
        lsn: position of the WAL; the snapshot contains exactly the transactions committed before it. None if no changes
            follow; the rows are then written without Frazil's own fields.
        position: position of rows that are read again; None for initial rows, which come before all changes.
    """

    url: str
    name: str
    read_at: str
    domains: Mapping[int, tuple[int, int]]
    lsn: int | None = None
    position: str | None = None


def load_table(table: ServerTable, folder: Path, snapshot: ExportedSnapshot, progress: Callable[[str], None]) -> int:
    """Copy the rows of a table from a snapshot; return their number.

    Args:
        table: table to copy.
        folder: empty folder. It receives one or more files, named in the order of the pages.
        snapshot: snapshot; the session that exported it must stay open.
        progress: callback that receives texts about the progress.

    Raises:
        RewrittenError: the rows are no longer visible in the snapshot.

    Cost: one scan of the table, in up to four sessions (one for each processor); memory for a few blocks each.
    """
    types = [base_type(*kind, snapshot.domains) for kind in table.types]
    schema = _schema(table, types, snapshot)
    starts = range(0, table.pages or 1, _PART_PAGES)
    parts = [(start, start + _PART_PAGES if start + _PART_PAGES < table.pages else None) for start in starts]
    is_binary = [oid == BYTEA for oid, _ in types]
    # If changes follow: rows of inheriting tables have changes of their own.
    rows = sql.Identifier(table.schema, table.name) if snapshot.lsn is None else table.itself
    done = 0

    def load(numbered: tuple[int, tuple[int, int | None]]) -> int:
        number, pages = numbered
        query = _copy(table, rows, pages if len(parts) > 1 else None)
        path = folder / f"{number:06}.parquet"
        size = _BLOCK_BYTES
        while True:
            try:
                return _load_part(snapshot, table, query, _Writer(path, schema, is_binary, snapshot), size)
            except _RowTooLargeError:
                size = min(size * _RATIO, _MOST_BLOCK_BYTES)

    with ThreadPoolExecutor(min(_WORKERS, os.cpu_count() or 1)) as pool:
        for number, loaded in enumerate(pool.map(load, enumerate(parts, start=1)), start=1):
            done += loaded
            progress(f"{table.full_name}: {number} of {len(parts)} parts, {done:,} rows")
    return done


def write_truncate(table: ServerTable, folder: Path, snapshot: ExportedSnapshot, position: str) -> None:
    """Write the record that truncates a table just before the rows of a snapshot, at the same time.

    Args:
        table: table to truncate.
        folder: folder of the rows.
        snapshot: snapshot of the rows.
        position: position of the truncate, as sortable text.
    """
    types = [base_type(*kind, snapshot.domains) for kind in table.types]
    schema = _schema(table, types, snapshot)
    own = {OP: "t", COMMITTED_AT: snapshot.read_at, POSITION: position}
    row = [pa.array([own.get(name)], pa.string()) for name in schema.names]
    pq.write_table(pa.Table.from_arrays(row, schema=schema), folder / f"{0:06}.parquet", compression="zstd")


def _schema(table: ServerTable, types: Sequence[tuple[int, int]], snapshot: ExportedSnapshot) -> pa.Schema:
    if snapshot.lsn is None:
        return schema_of_rows(table.columns, types)
    return schema_of(table.columns, types, (), snapshot=hex_lsn(snapshot.lsn))


class RewrittenError(Exception):
    """A table was truncated, rewritten or replaced after the snapshot, so its rows can no longer be read."""


class _RowTooLargeError(Exception):
    """A row does not fit into a block."""


class _Writer:
    """Converter of blocks of rows for one file."""

    def __init__(self, path: Path, schema: pa.Schema, is_binary: list[bool], snapshot: ExportedSnapshot) -> None:
        self.path, self.schema, self.is_binary = path, schema, is_binary
        self.own = {OP: "r", COMMITTED_AT: snapshot.read_at, POSITION: snapshot.position}

    def rows(self, block: Any) -> pa.RecordBatch:
        """Return a block as written to the file; the first column of the block is a constant and is dropped."""
        count = block.num_rows
        before = len(self.schema) - len(self.is_binary)
        arrays = [
            pa.repeat(pa.scalar(self.own.get(field.name), pa.string()), count) for field in list(self.schema)[:before]
        ]
        for column, is_binary in zip(block.columns[1:], self.is_binary, strict=True):
            arrays.append(hex_digits(column) if is_binary else column)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _load_part(
    snapshot: ExportedSnapshot, table: ServerTable, query: sql.Composed, writer: _Writer, block_bytes: int
) -> int:
    place = sql.Identifier(table.schema, table.name)
    names = ["", *(f"{number}" for number in range(len(writer.is_binary)))]
    with open_session(snapshot.url) as session, session.transaction():
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        session.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot.name)))
        session.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(place))
        rewritten = session.execute(_REWRITTEN, {"table": place.as_string(session), "oid": table.oid}).fetchone()
        if rewritten and rewritten[0]:
            raise RewrittenError
        with (
            session.cursor().copy(query) as copy,
            pq.ParquetWriter(writer.path, writer.schema, compression="zstd") as file,
        ):
            stream = io.BufferedReader(_Stream(copy), 1024 * 1024)
            first = stream.peek(1)
            if not first:
                return 0
            rows = 0
            try:
                blocks = pc.open_csv(
                    pa.PythonFile(stream, "r"),
                    # NULL is an empty field without quotes; an empty text has quotes.
                    read_options=pc.ReadOptions(column_names=names, block_size=block_bytes, use_threads=False),
                    parse_options=pc.ParseOptions(newlines_in_values=True),
                    convert_options=pc.ConvertOptions(
                        column_types=dict.fromkeys(names, pa.string()),
                        null_values=[""],
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                        check_utf8=False,
                    ),
                )
                for block in blocks:
                    file.write_batch(writer.rows(block))
                    rows += block.num_rows
            except pa.ArrowInvalid as error:
                if block_bytes >= _MOST_BLOCK_BYTES:
                    raise
                raise _RowTooLargeError from error
            return rows


def _copy(table: ServerTable, rows: sql.Composable, pages: tuple[int, int | None] | None) -> sql.Composed:
    """Write the COPY command for some pages of ``rows``; None copies all pages."""
    # A first column that is never empty; otherwise a row with a single NULL would be an empty line.
    columns = sql.SQL(", ").join([sql.SQL("1"), *map(sql.Identifier, table.columns)])
    conditions: list[sql.Composable] = []
    if table.row_filter is not None:
        conditions.append(sql.SQL("({})").format(sql.SQL(table.row_filter)))
    if pages is not None:
        conditions.append(sql.SQL("ctid >= {}").format(sql.Literal(f"({pages[0]},0)")))
        if pages[1] is not None:
            conditions.append(sql.SQL("ctid < {}").format(sql.Literal(f"({pages[1]},0)")))
    where = sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")
    return sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT (FORMAT csv)").format(columns, rows, where)


class _Stream(io.RawIOBase):
    """The output of COPY as a file."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the available data."""
        room = memoryview(buffer).cast("B")
        while not self._rest:
            data = self._copy.read()
            if not data:
                return 0
            self._rest = memoryview(data)
        # Rows come one at a time; fill the buffer with as many as fit.
        filled = 0
        while self._rest:
            taken = min(len(self._rest), len(room) - filled)
            room[filled : filled + taken] = self._rest[:taken]
            filled += taken
            self._rest = self._rest[taken:]
            if filled == len(room):
                break
            if not self._rest:
                self._rest = memoryview(self._copy.read())
        return filled
