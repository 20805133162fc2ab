"""A hash of the changes of a table that does not depend on their order, nor on the files that they are in.

The hash of a batch is the SHA-256 of the sorted SHA-256 of its rows. Batches are chained: the hash up to a batch is the
SHA-256 of ``<hash before>:<batch>:<rows>:<hash of the batch>``. A batch that comes adds to it without a look at the
others; and the changes of all batches, in whatever files they are by now, give the hash up to each of them in one scan.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.duck.database import cursor
from frazil.duck.sql import identifier, scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import duckdb

_DIGITS: Final = 64
_ROWS_AT_ONCE: Final = 50_000
_SETTINGS: Final = {"memory_limit": "512MB", "threads": "2", "enable_external_file_cache": "false"}
_PLAIN: Final = ("boolean", "int", "bigint", "float", "double", "date", "decimal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHash:
    """The changes of a table up to a batch.

    Attributes:
        batch: the newest batch that has any.
        rows: how many there are.
        digest: their hash; empty for none.
    """

    batch: int = 0
    rows: int = 0
    digest: str = ""

    def then(self, batch: int, rows: int, digest: str) -> ChangeHash:
        """Return the hash with one more batch.

        Args:
            batch: number of the batch.
            rows: its number of rows.
            digest: its hash.
        """
        text = f"{self.digest}:{batch}:{rows}:{digest}"
        return ChangeHash(batch=batch, rows=self.rows + rows, digest=hashlib.sha256(text.encode()).hexdigest())


def change_hashes(location: str, columns: Mapping[str, str], since: ChangeHash) -> list[ChangeHash]:
    """Return the hash up to each batch that came after one.

    Args:
        location: address of the metadata file of a silver table.
        columns: its columns, with types as Spark writes them.
        since: where to begin.

    Cost: one scan of the rows of these batches, which are sorted by their hashes.
    """
    found, hashes = since, []
    connection = cursor({("", ""): location}, _SETTINGS)
    try:
        for batch, rows, digest in batch_hashes(connection, scan(location), columns, since.batch):
            found = found.then(batch, rows, digest)
            hashes.append(found)
    finally:
        connection.close()
    return hashes


def newest_position(location: str, after: int) -> str:
    """Return the greatest position of the changes of a silver table that came after a batch; empty for none.

    Cost: one scan of a column.
    """
    connection = cursor({("", ""): location}, _SETTINGS)
    try:
        newest, batch = identifier(r.POSITION), identifier(r.BATCH)
        sql = f"SELECT max({newest}) FROM {scan(location)} WHERE {batch} > {int(after)}"
        [(found,)] = connection.execute(sql).fetchall()
        return str(found or "")
    finally:
        connection.close()


def batch_hashes(
    connection: duckdb.DuckDBPyConnection,
    rows: str,
    columns: Mapping[str, str],
    after: int,
    *,
    rows_at_once: int = _ROWS_AT_ONCE,
) -> Iterator[tuple[int, int, str]]:
    """Yield number, row count and hash of each batch after ``after``.

    Args:
        connection: a DuckDB connection.
        rows: SQL of a FROM clause with the rows.
        columns: columns of the rows, with types as Spark writes them.
        after: a batch number; earlier batches and this one are skipped.
        rows_at_once: number of rows that are read at a time.
    """
    batch = identifier(r.BATCH)
    sql = f"SELECT {batch}::BIGINT AS b, sha256({hashed_text(columns)}) AS h FROM {rows} WHERE {batch} > {int(after)}"
    found = _pieces(connection.execute(f"{sql} ORDER BY 1, 2").to_arrow_reader(rows_at_once))
    for at, some in itertools.groupby(found, key=lambda piece: piece[0]):
        count, hashed = 0, hashlib.sha256()
        for _, digests in some:
            count += len(digests) // _DIGITS
            hashed.update(digests)
        yield at, count, hashed.hexdigest()


def _pieces(batches: Any) -> Iterator[tuple[int, memoryview]]:
    """Yield the hashes of rows of one batch after another, as one text."""
    for some in batches:
        numbers, digests = some.column(0), some.column(1).cast(pa.binary())
        ends = pc.run_end_encode(numbers)
        first = 0
        offset, content = digests.offset, memoryview(digests.buffers()[2])
        start = pa.Array.from_buffers(pa.int32(), 1, [None, digests.buffers()[1]], offset=offset)[0].as_py()
        for end, number in zip(ends.run_ends.to_pylist(), ends.values.to_pylist(), strict=True):
            yield number, content[start + first * _DIGITS : start + end * _DIGITS]
            first = end


def hashed_text(columns: Mapping[str, str]) -> str:
    """Write the text of a row in DuckDB's SQL, the texts of its columns one after another.

    A text, or what is written as one, is its number of bytes, a colon and itself; any other value its text and a
    semicolon; of NULL the colon or the semicolon is alone. Times are microseconds since 1970, bytes hexadecimal digits
    behind their number, lists and structs JSON.
    """
    return f"concat({', '.join(_value_text(identifier(name), kind) for name, kind in columns.items())})"


def _value_text(name: str, kind: str) -> str:
    if kind.startswith("timestamp"):
        return f"epoch_us({name}), ';'"
    if kind == "binary":
        return f"octet_length({name}), ':', hex({name})"
    if kind.startswith(_PLAIN):
        return f"{name}, ';'"
    text = name if kind == "string" else f"CAST(to_json({name}) AS VARCHAR)"
    return f"strlen({text}), ':', {text}"
