"""Merge a table's small files in one commit and without a Spark job.

Each small batch adds a data file and a position delete file, and readers open all of them. Spark's own procedures merge
them at the cost of several batches.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalog.trouble import translate_error
from frazil.errors import BusyError
from frazil.lake.commit import takes_row_deltas
from frazil.lake.file_writer import FILE_PATH, LIVING, FileWriter
from frazil.spark.gateway import commit_snapshot, direct_executor, java_class, java_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.lake.table_files import TableFile, TableFiles

_FACTOR: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The files of a table to merge.

    Attributes:
        rows: addresses of data files.
        places: addresses of position delete files.
        is_left: whether a data file with many deleted rows is too large to merge here.
    """

    rows: Collection[str]
    places: Collection[str]
    is_left: bool


def choose_merge(files: TableFiles, *, smaller: int, dead_share: float, most_bytes: int) -> Merge:
    """Choose the files of a table to merge.

    Args:
        files: of the table.
        smaller: data files and delete files of fewer bytes are small, and are merged.
        dead_share: data files with a larger share of deleted rows are rewritten.
        most_bytes: size limit of the data files that are rewritten for their share of deleted rows.
    """
    # Position deletes may refer to files that were removed.
    many = {at for at in files.deleted.keys() & files.rows.keys() if _dead_share(files, at) > dead_share}
    again = {address for address in many if files.rows[address].size_bytes <= most_bytes}
    rows, places = (
        [address for some in _by_part(_below(smaller, kept), kept).values() for address in _similar(some, kept)]
        for kept in (files.rows, files.places)
    )
    return Merge(rows=[*{*rows, *again}], places=places, is_left=bool(many - again))


def merge_files(
    spark: SparkSession, name: str, at: TableSnapshot, files: TableFiles, merge: Merge, *, file_bytes: int
) -> bool:
    """Merge files of a table in one commit, so that it has the same rows as before.

    Args:
        spark: a session.
        name: quoted name of the table.
        at: the table's newest snapshot.
        files: the files of that snapshot.
        merge: the files to merge.
        file_bytes: memory that the rows of one new file take.

    Returns:
        Whether the files were merged. False if there is nothing to merge, if only Spark can merge them (tables without
        row deltas, maps and rare types), or if another process changed the table meanwhile.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: a file cannot be read.

    Cost: reads the files and writes their remaining rows; holds a few files and all position deletes in memory.
    """
    if not (merge.rows or merge.places) or not takes_row_deltas(spark, name, deletes=True):
        return False
    table = java_table(spark, name)
    if int(table.schema().columns().size()) != len(files.columns):
        return False
    before = table.operations().current()
    change = table.newRewrite().validateFromSnapshot(at.snapshot_id)
    made = java_class(spark, "org.apache.iceberg.DataFiles"), java_class(spark, "org.apache.iceberg.FileMetadata")
    with tempfile.TemporaryDirectory(prefix="frazil-") as folder:
        writer = FileWriter.of(spark, table, Path(folder), files.columns, file_bytes=file_bytes)
        for file in writer.rows(_living(files, merge.rows)):
            change.addFile(file)
        for address in merge.rows:
            change.deleteFile(_entry(made[0].builder(table.spec()), files.rows[address]))
        for part, some in _by_part(merge.places, files.places).items():
            left = _places(files, some, merge.rows)
            if left.num_rows:
                change.addFile(writer.places(left, part))
            for address in some:
                entry = made[1].deleteFileBuilder(table.spec()).ofPositionDeletes()
                change.deleteFile(_entry(entry, files.places[address]))
    return _commit(spark, table, before, change, at)


def _commit(spark: SparkSession, table: Any, before: Any, change: Any, at: TableSnapshot) -> bool:
    """Commit a rewrite; return False if ``at`` is no longer the table's newest snapshot."""
    try:
        newest = change.scanManifestsWith(direct_executor(spark)).apply()
        if newest.parentId() != at.snapshot_id:
            return False
        commit_snapshot(spark, table, before, newest)
    except Exception as error:
        if isinstance(translate_error(error), BusyError):
            return False
        raise
    return True


def _below(size_bytes: int, files: Mapping[str, TableFile]) -> list[str]:
    return [address for address, file in files.items() if file.size_bytes < size_bytes]


def _similar(addresses: Iterable[str], files: Mapping[str, TableFile]) -> list[str]:
    """Leave out files that are more than eight times as large as all smaller ones together, and a single remaining one.

    A row is therefore rewritten each time the newer files have grown to an eighth of its file's size, and one or two
    small files remain. Opening a small file takes readers longer than reading it, and rewriting it is cheap.
    """
    ordered = sorted(addresses, key=lambda address: files[address].size_bytes)
    sizes = [files[address].size_bytes for address in ordered]
    below = accumulate(sizes, initial=0)
    last = max(
        (at for at, (size, sum_) in enumerate(zip(sizes, below, strict=False)) if size <= _FACTOR * sum_), default=-1
    )
    return ordered[: last + 1]


def _living(files: TableFiles, addresses: Iterable[str]) -> Iterator[pa.Table]:
    for address in addresses:
        rows = files.living(address)
        if rows is None:
            raise ValueError(f"{address}: columns that are not those of the table")
        yield rows


def _places(files: TableFiles, addresses: Iterable[str], merged: Collection[str]) -> pa.Table:
    """Read position delete files, without the positions in merged data files."""
    places = pa.concat_tables(map(files.gone, addresses))
    is_merged = pc.is_in(places[FILE_PATH], value_set=pa.array(merged, pa.string()))
    return places.filter(pc.invert(is_merged))


def _dead_share(files: TableFiles, address: str) -> float:
    lives = files.lives(address)
    return 1 - float(lives.mean()) if len(lives) else 0.0


def _by_part(addresses: Iterable[str], files: Mapping[str, TableFile]) -> dict[str, list[str]]:
    """Group files by the folder of their partition."""
    found = defaultdict[str, list[str]](list)
    for address in sorted(addresses):
        found[_part(files[address])].append(address)
    return found


def _part(file: TableFile) -> str:
    return "/".join(
        f"{name}={f'{value}'.lower() if name == LIVING else value}" for name, value in file.partition.items()
    )


def _entry(made: Any, file: TableFile) -> Any:
    """Build Iceberg's manifest entry of a file of the table."""
    made = made.withPath(file.address).withFormat("parquet").withFileSizeInBytes(file.size_bytes)
    made = made.withRecordCount(file.rows)
    return (made.withPartitionPath(part) if (part := _part(file)) else made).build()
