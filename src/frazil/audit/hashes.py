"""Hashes in certificates: of a table's changes in any order and files, and of all files of its newest snapshot.

The hash of a batch is the SHA-256 of the sorted SHA-256 of its rows. Batches are chained: the hash up to a batch is the
SHA-256 of ``<hash before>:<batch>:<rows>:<hash of the batch>``. A batch that comes adds to it without a look at the
others; and the changes of all batches, in whatever files they are by now, give the hash up to each of them in one scan.

A snapshot names its manifest list, the list names manifests, and manifests name data and delete files. Files never
change, so only the files that no certificate covers yet need to be read.
"""

from __future__ import annotations

import hashlib
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.duck import cursor, identifier, scan
from frazil.host import usable_cores
from frazil.iceberg.metadata import live_files, local_path, manifests, metadata_of, same_store, unreadable
from frazil.iceberg.snapshot import (
    ancestors,
    batch_at,
    current_columns,
    known_snapshots,
    main_snapshot,
    spark_columns,
)
from frazil.storage.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """A table's snapshots, seen from its newest one or an older one.

    Attributes:
        location: address of the metadata file.
        snapshot: None for a table without one.
        snapshots: all that can still be read, by id, as Iceberg writes them to JSON.
        columns: names and types.
        folder: address of the table's folder.
    """

    location: str
    snapshot: int | None
    snapshots: Mapping[int, Mapping[str, Any]]
    columns: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    def since(self, older: int | None) -> list[Mapping[str, Any]] | None:
        """Return the snapshots after an older one, oldest first; None if the older one is not a known ancestor."""
        found: list[Mapping[str, Any]] = []
        for one in ancestors(self.snapshot, self.snapshots.get):
            if one["snapshot-id"] == older:
                break
            found.append(one)
        before = found[-1].get("parent-snapshot-id") if found else self.snapshot
        return found[::-1] if before == older else None

    @property
    def batch(self) -> int:
        """The newest batch of bronze that the table holds; 0 if it holds none."""
        return batch_at(self.snapshot, self.snapshots.get)

    @property
    def newest(self) -> Mapping[str, Any]:
        """The snapshot, as Iceberg writes it to JSON; empty for none."""
        return {} if self.snapshot is None else self.snapshots[self.snapshot]

    @property
    def rows(self) -> int:
        """Rows that can be read, by the snapshot's summary: no row is deleted twice."""
        summary = self.newest.get("summary", {})
        return int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))

    def short(self, address: str) -> str:
        """Return a file's address from the table's folder on."""
        file, folder = (f"{local_path(one) or one.partition('://')[2]}".rstrip("/") for one in (address, self.folder))
        return file.removeprefix(folder).lstrip("/")


def read_table_history(location: str) -> TableHistory:
    """Read a table's metadata file.

    Raises:
        DamagedTableError: it is gone or damaged.
        NotOnThisMachineError, ObjectStoreError: it cannot be reached.
    """
    try:
        metadata = metadata_of(location)
        snapshots, head = known_snapshots(metadata), main_snapshot(metadata)
        columns = spark_columns(current_columns(metadata))
        folder = f"{metadata['location']}"
    except (ValueError, LookupError) as error:
        raise unreadable(location, f"{error}") from error
    known = head if head in snapshots else None
    return TableHistory(location=location, snapshot=known, snapshots=snapshots, columns=columns, folder=folder)


def snapshot_files(table: TableHistory, new: Collection[int] | None = None) -> tuple[list[str], list[str]]:
    """List the files of a table's newest snapshot by address: its list of manifests and manifests, then all others.

    Args:
        table: the table.
        new: ids of snapshots: only what these have added; all by default.

    Cost: reads the list, and each manifest that one of these snapshots has written.
    """
    listed = table.newest.get("manifest-list")
    if listed is None:
        return [], []
    above, rows = [listed], []
    for manifest in manifests(same_store(table.location, listed)):
        added_by = manifest.get("added_snapshot_id")
        if new is not None and added_by not in new:
            continue
        above.append(manifest["manifest_path"])
        for entry in live_files(same_store(table.location, manifest["manifest_path"])):
            by = added_by if entry.get("snapshot_id") is None else entry["snapshot_id"]
            if new is None or by in new:
                rows.append(entry["data_file"]["file_path"])
    return above, rows


def file_hashes(table: TableHistory, addresses: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files, by their addresses from the table's folder on.

    Raises:
        DamagedTableError: a file is missing or cannot be read.
    """

    def one(address: str) -> tuple[str, str]:
        path = local_path(address)
        try:
            return table.short(address), sha256_of(same_store(table.location, address) if path is None else f"{path}")
        except OSError as error:
            raise unreadable(address, error.strerror or f"{error}") from error

    with ThreadPoolExecutor(usable_cores()) as pool:
        return dict(pool.map(one, addresses))
