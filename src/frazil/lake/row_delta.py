"""Change a table's rows in one commit and without a Spark job: files of new rows, and one of the places of old ones.

For rows that are in the driver's memory, or pass through it piece by piece. SQL would look for the old rows a second
time and plan two writes, which takes longer than all the rest of a small batch.
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
"""The one format whose deletes are files of places."""
_PARTS: Final = (LIVING, r.KIND, r.CLASS)
"""Columns by one of which a table may be parted: of few values, which are ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """Rows to add to a table, and places whose rows go.

    Attributes:
        rows: streams of Arrow tables of the new rows, columns by name in any case; those that they lack are NULL. Each
            stream goes to files of its own, several streams at once, each read by one thread.
        columns: the columns that all of them have.
        places: Arrow table of the columns ``file_path`` and ``pos``, and ``is_current`` where the table has it; None
            where nothing goes.
    """

    rows: Sequence[Iterable[pa.Table]]
    columns: Sequence[str]
    places: pa.Table | None = None


def takes_row_deltas(spark: SparkSession, name: str, *, deletes: bool) -> bool:
    """Return whether :func:`stage_row_delta` can be used on a table, with places or without any.

    It needs a JVM gateway, for places format 2 (format 3 wants deletion vectors), a table whose files are all not
    partitioned, or all by one of Frazil's own columns, and rows that may stand in any order. Tables with custom write
    properties use Spark's writer, which knows all of Iceberg's settings.
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
    """Add rows to a table and delete those that stand at some places, in a snapshot that the table does not have yet.

    Args:
        spark: a session with a JVM gateway.
        name: quoted name of a table for which :func:`takes_row_deltas` holds.
        delta: rows and places.
        summary: properties of the snapshot.
        file_bytes: memory that the rows of one file take.

    Returns:
        The Java snapshot, whose parent is the newest one of ``main``, if there is one. Its files are written; should it
        never be committed, they are orphans.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the column's type.

    Cost: a file per ``file_bytes`` of rows, stream and part of the table, and their manifests; such a piece of each
        stream that is being written in memory, and its file on the local disk.
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
    """Write each stream in a thread of its own, as many at once as there are cores; give the files of all."""
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
