"""Add and delete rows of a table in one commit, without a Spark job.

Used for rows that are in the driver's memory, or are streamed through it. SQL would search for the old rows a second
time and plan two writes, which takes longer than all other work of a small batch.
"""

from __future__ import annotations

import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.host.machine import usable_cores
from frazil.lake.file_writer import (
    CODEC,
    CODEC_SETTING,
    LEVEL_SETTING,
    LIVING,
    FileWriter,
    part_column,
    split_by_partition,
)
from frazil.spark.gateway import direct_executor, java_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

_WITH_PLACES: Final = 2
"""The one format version with position delete files."""
_PARTS: Final = (LIVING, r.KIND, r.CLASS)
"""Columns of Frazil with few values, which a table may be partitioned by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """Rows to add to a table, and positions of the rows to delete.

    Attributes:
        rows: streams of Arrow tables of the new rows, columns by name in any case; missing columns are NULL. Each
            stream is written to files of its own, by one thread; several streams are written in parallel.
        columns: the columns that all streams have.
        places: Arrow table of the columns ``file_path`` and ``pos``, and ``is_current`` if the table is partitioned by
            it; None to delete nothing.
    """

    rows: Sequence[Iterable[pa.Table]]
    columns: Sequence[str]
    places: pa.Table | None = None


def takes_row_deltas(spark: SparkSession, name: str, *, deletes: bool) -> bool:
    """Return whether :func:`stage_row_delta` can be used on a table.

    It needs a JVM gateway and a table without a sort order. All files must be unpartitioned, or partitioned by one of
    Frazil's own columns. Deletes need format 2, since format 3 requires deletion vectors. Tables with custom write
    properties use Spark's writer, which supports all of Iceberg's settings.

    Args:
        spark: any session.
        name: quoted name of the table.
        deletes: whether rows are deleted too.
    """
    table = java_table(spark, name)
    if table is None or (deletes and table.operations().current().formatVersion() != _WITH_PLACES):
        return False
    spec = table.spec()
    if not (bool(spec.isUnpartitioned()) or part_column(spec) in _PARTS) or not _has_one_spec(table):
        return False
    if table.sortOrder().isSorted():
        return False
    settings = table.properties()
    own = re.findall(r"write\.(?:format|parquet)\.[^,\]]+", settings.keySet().toString())
    return not {*own} - {CODEC_SETTING, LEVEL_SETTING} and settings.getOrDefault(CODEC_SETTING, CODEC) == CODEC


def stage_row_delta(
    spark: SparkSession, name: str, delta: RowDelta, summary: Mapping[str, str], *, file_bytes: int
) -> Any:
    """Write added and deleted rows as a snapshot that is not part of the table yet.

    Args:
        spark: a session with a JVM gateway.
        name: quoted name of a table for which :func:`takes_row_deltas` holds.
        delta: the rows to add and to delete.
        summary: properties of the snapshot.
        file_bytes: memory that the rows of one file take.

    Returns:
        The Java snapshot, a child of the newest one of ``main``. Its files are written; they become orphans if the
        snapshot is not committed.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the column's type.

    Cost: writes one file per ``file_bytes`` of rows, stream and partition, and manifests. Each stream that is being
        written holds ``file_bytes`` in memory, and one file on the local disk.
    """
    table = java_table(spark, name)
    if table is None:
        raise TypeError(f"{name} cannot be reached through a JVM gateway")
    change = table.newRowDelta()
    with tempfile.TemporaryDirectory(prefix="frazil-") as folder:
        writer = FileWriter.of(spark, table, Path(folder), delta.columns, file_bytes=file_bytes)
        for file in _side_by_side(writer.rows, delta.rows):
            change.addRows(file)
        for part, some in split_by_partition(writer.parted_by, delta.places) if delta.places is not None else ():
            change.addDeletes(writer.places(some, part))
    for key, value in summary.items():
        change.set(key, value)
    return change.scanManifestsWith(direct_executor(spark)).apply()


def _side_by_side(write: Callable[[Iterable[pa.Table]], list[Any]], rows: Sequence[Iterable[pa.Table]]) -> list[Any]:
    """Write the streams in parallel, one thread for each core, and return all files."""
    if len(rows) == 1:
        return write(rows[0])
    with ThreadPoolExecutor(usable_cores()) as pool:  # where one fails, those not begun are cancelled
        return [file for files in pool.map(write, rows) for file in files]


def _has_one_spec(table: Any) -> bool:
    """Return whether all files of the newest snapshot are partitioned as the table is now."""
    newest = table.currentSnapshot()
    if newest is None or table.specs().size() == 1:
        return True
    now = table.spec().specId()
    return all(manifest.partitionSpecId() == now for manifest in newest.allManifests(table.io()))
