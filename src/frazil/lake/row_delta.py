"""Change a table's rows in one commit and without a Spark job: files of new rows, and one of the places of old ones.

For rows that are in the driver's memory, or pass through it piece by piece. SQL would look for the old rows a second
time and plan two writes, which takes longer than all the rest of a small batch.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.bronze import record as r
from frazil.lake.gateway import java_class, java_table, schema_fields
from frazil.lake.kept_files import keep_written
from frazil.lake.machine import usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

FILE_PATH, POS, LIVING = "file_path", "pos", "is_current"
"""Columns of places: a row's file, its number in it, and for a table parted by ``is_current`` which part it is in."""

_WITH_PLACES: Final = 2
"""The one format whose deletes are files of places."""
_PARTS: Final = (LIVING, r.KIND, r.CLASS)
"""Columns by one of which a table may be parted: of few values, which are ours."""
_CODEC: Final = "zstd"
_LEVEL: Final = "3"
"""The level that Iceberg writes with."""
_CODEC_SETTING, _LEVEL_SETTING = "write.parquet.compression-codec", "write.parquet.compression-level"
FIELD_ID: Final = b"PARQUET:field_id"
"""Where Parquet keeps the number that Iceberg knows a column by."""
_KINDS: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
}
_EXECUTORS: Final = "org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors"
"""Gives an executor that works at once; Iceberg asks its own every ten milliseconds whether they are done."""
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")
_PLACES: Final = pa.schema(
    [
        # The numbers that Iceberg's format gives these columns.
        pa.field(FILE_PATH, pa.string(), nullable=False, metadata={FIELD_ID: b"2147483546"}),
        pa.field(POS, pa.int64(), nullable=False, metadata={FIELD_ID: b"2147483545"}),
    ]
)


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
    if not (bool(spec.isUnpartitioned()) or _part(spec) in _PARTS) or not _has_one_spec(table):
        return False
    if table.sortOrder().isSorted():
        return False
    settings = table.properties()
    own = re.findall(r"write\.(?:format|parquet)\.[^,\]]+", settings.keySet().toString())
    return not {*own} - {_CODEC_SETTING, _LEVEL_SETTING} and settings.getOrDefault(_CODEC_SETTING, _CODEC) == _CODEC


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
    names = {column.lower(): column for column in delta.columns}
    schema = _schema(spark, table, names)
    with tempfile.TemporaryDirectory(prefix="frazil-") as folder:
        writer = _Writer(
            spark=spark,
            table=table,
            folder=Path(folder),
            schema=schema,
            columns=[names[name.lower()] for name in schema.names],
            file_bytes=file_bytes,
        )
        for file in _side_by_side(writer.rows, delta.rows):
            change.addRows(file)
        for part, some in _parts(writer.parted_by, delta.places) if delta.places is not None else ():
            change.addDeletes(writer.places(some, part))
    for key, value in summary.items():
        change.set(key, value)
    return change.scanManifestsWith(java_class(spark, _EXECUTORS).newDirectExecutorService()).apply()


def _side_by_side(write: Callable[[Iterable[pa.Table]], list[Any]], rows: Sequence[Iterable[pa.Table]]) -> list[Any]:
    """Write each stream in a thread of its own, as many at once as there are cores; give the files of all."""
    if len(rows) == 1:
        return write(rows[0])
    with ThreadPoolExecutor(usable_cores()) as pool:  # where one fails, those not begun are cancelled
        return [file for files in pool.map(write, rows) for file in files]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes files beside a table's others; gives them as Iceberg's ``DataFile`` and ``DeleteFile``.

    Attributes:
        folder: a local one, for files that are not where the table is yet.
        schema: of the files of rows.
        columns: the columns of streams that go to it, in its order.
        file_bytes: memory that the rows of one file take.
    """

    spark: SparkSession
    table: Any
    folder: Path
    schema: pa.Schema
    columns: Sequence[str]
    file_bytes: int

    @property
    def parted_by(self) -> str | None:
        """Column that the table is parted by."""
        return _part(self.table.spec())

    def rows(self, stream: Iterable[pa.Table]) -> list[Any]:
        """Write a stream of rows to files, each part of the table to its own."""
        parted_by = self.parted_by
        level = self.table.properties().getOrDefault(_LEVEL_SETTING, _LEVEL)
        waiting: dict[str, list[pa.Table]] = {}
        files = []
        for rows in stream:
            for part, some in _parts(parted_by, rows):
                mine = waiting.setdefault(part, [])
                mine.append(some.select(self.columns).rename_columns(self.schema.names).cast(self.schema))
                if sum(piece.nbytes for piece in mine) >= self.file_bytes:
                    files.append(self._rows_file(waiting.pop(part), part, level))
        return files + [self._rows_file(pieces, part, level) for part, pieces in waiting.items()]

    def places(self, places: pa.Table, part: str) -> Any:
        """Write the places of rows that go to one file."""
        by_place = [(name, "ascending") for name in _PLACES.names]
        made = self._java("org.apache.iceberg.FileMetadata").deleteFileBuilder(self.table.spec()).ofPositionDeletes()
        config = self._java("org.apache.iceberg.MetricsConfig").forPositionDelete()
        return self._file(places.select(_PLACES.names).sort_by(by_place).cast(_PLACES), part, _LEVEL, made, config)

    def _rows_file(self, pieces: Sequence[pa.Table], part: str, level: str) -> Any:
        made = self._java("org.apache.iceberg.DataFiles").builder(self.table.spec())
        config = self._java("org.apache.iceberg.MetricsConfig").forTable(self.table)
        return self._file(pa.concat_tables(pieces), part, level, made, config)

    def _file(self, rows: pa.Table, part: str, level: str, made: Any, config: Any) -> Any:
        """Write one file; ``made`` is Iceberg's builder of its entry, ``config`` says which columns have metrics."""
        name = f"{uuid.uuid4().hex}.parquet"
        local = self.folder / name
        pq.write_table(
            rows,
            local,
            compression=_CODEC,
            compression_level=int(level),
            row_group_size=max(rows.num_rows, 1),
            store_schema=False,
            store_decimal_as_integer=True,
        )
        # Through Iceberg, which knows how to write where the table is. No file there has this name yet.
        path = self.table.locationProvider().newDataLocation("/".join(filter(None, (part, name))))
        stream = self.table.io().newOutputFile(path).createOrOverwrite()
        self._java("java.nio.file.Files").copy(self._java("java.io.File")(f"{local}").toPath(), stream)
        stream.close()
        keep_written(path, local)
        footer = self._java("org.apache.iceberg.Files").localInput(f"{local}")
        metrics = self._java("org.apache.iceberg.parquet.ParquetUtil").fileMetrics(footer, config)
        made = made.withPath(path).withFormat("parquet").withFileSizeInBytes(local.stat().st_size).withMetrics(metrics)
        local.unlink()
        return (made.withPartitionPath(part) if part else made).build()

    def _java(self, name: str) -> Any:
        return java_class(self.spark, name)


def _parts(name: str | None, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Split rows by the column that their table is parted by, with the parts' folders; empty parts are left out."""
    if name is None:
        if rows.num_rows:
            yield "", rows
        return
    values = pc.unique(rows[name])
    for value in values:
        text = str(value.as_py())
        some = rows if len(values) == 1 else rows.filter(pc.equal(rows[name], value))
        yield f"{name}={text.lower() if name == LIVING else text}", some


def _has_one_spec(table: Any) -> bool:
    """Return whether all files of the newest snapshot are partitioned as the table is now."""
    newest = table.currentSnapshot()
    if newest is None or table.specs().size() == 1:
        return True
    now = table.spec().specId()
    return all(manifest.partitionSpecId() == now for manifest in newest.allManifests(table.io()))


def _part(spec: Any) -> str | None:
    """Name the column that a table is parted by, where it is one as it is; None for any other table."""
    fields = spec.fields()
    return str(fields[0].name()) if len(fields) == 1 and bool(fields[0].transform().isIdentity()) else None


def _schema(spark: SparkSession, table: Any, names: Container[str]) -> pa.Schema:
    """Read those columns of a table that are among lower-case names, with the numbers that Iceberg knows them by."""
    fields = schema_fields(spark, table.schema())
    return pa.schema(_field(column) for column in fields if column["name"].lower() in names)


def _field(column: Mapping[str, Any]) -> pa.Field:
    return pa.field(column["name"], _kind(column["type"]), metadata={FIELD_ID: f"{column['id']}".encode()})


def plain_type(of: str) -> pa.DataType | None:
    """Return Arrow's type for one of Iceberg's that is not nested, in the words of its JSON; None where it has none."""
    digits = _DECIMAL.fullmatch(of)
    return pa.decimal128(int(digits[1]), int(digits[2])) if digits else _KINDS.get(of)


def _kind(of: str | Mapping[str, Any]) -> pa.DataType:
    """Return Arrow's type for one of Iceberg's, in the words of its JSON."""
    if isinstance(of, str):
        kind = plain_type(of)
        if kind is None:
            raise TypeError(of)
        return kind
    if of["type"] == "list":
        return pa.list_(_field({"name": "element", "type": of["element"], "id": of["element-id"]}))
    return pa.struct(map(_field, of["fields"]))
