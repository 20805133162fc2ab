"""Change a table's rows in one commit and without a Spark job: a file of new rows, and one of the places of old ones.

For batches that fit into the driver's memory many times over. SQL would look for the old rows a second time and plan
two writes, which takes longer than all the rest of a small batch.
"""

from __future__ import annotations

import io
import json
import re
import uuid
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.bronze import record as r
from frazil.lake.gateway import java_class, java_table

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

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
        pa.field(FILE_PATH, pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field(POS, pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


def takes_row_deltas(spark: SparkSession, name: str, *, deletes: bool) -> bool:
    """Tell whether :func:`stage_row_delta` can be used on a table, with places or without any.

    It needs a JVM gateway, for places format 2 (format 3 wants deletion vectors), a table that was never partitioned,
    or only ever by one of Frazil's own columns, and rows that may stand in any order. Whoever asks for files of a kind
    of her own gets them from Spark, which knows all of Iceberg's settings.
    """
    table = java_table(spark, name)
    if table is None or (deletes and table.operations().current().formatVersion() != _WITH_PLACES):
        return False
    spec = table.spec()
    if table.specs().size() != 1 or not (bool(spec.isUnpartitioned()) or _part(spec) in _PARTS):
        return False
    if table.sortOrder().isSorted():
        return False
    settings = table.properties()
    own = re.findall(r"write\.(?:format|parquet)\.[^,\]]+", settings.keySet().toString())
    return not {*own} - {_CODEC_SETTING, _LEVEL_SETTING} and settings.getOrDefault(_CODEC_SETTING, _CODEC) == _CODEC


def stage_row_delta(
    spark: SparkSession, name: str, *, rows: pa.Table, places: pa.Table | None, summary: Mapping[str, str]
) -> Any:
    """Add rows to a table and delete those that stand at some places, in a snapshot that the table does not have yet.

    Args:
        spark: a session with a JVM gateway.
        name: quoted name of a table for which :func:`takes_row_deltas` holds.
        rows: Arrow table of the new rows, columns by name in any case; those that it lacks are NULL.
        places: Arrow table of the columns ``file_path`` and ``pos``, and ``is_current`` where the table has it; None
            where nothing goes.
        summary: properties of the snapshot.

    Returns:
        The Java snapshot, whose parent is the newest one of ``main``, if there is one. Its files are written; should it
        never be committed, they are orphans.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the column's type.

    Cost: two small files a part of the table, and their manifests; the rows twice in memory, their files once.
    """
    table = java_table(spark, name)
    if table is None:
        raise TypeError(f"{name} cannot be reached through a JVM gateway")
    spec = table.spec()
    parquet = java_class(spark, "org.apache.iceberg.parquet.ParquetUtil")
    config = java_class(spark, "org.apache.iceberg.MetricsConfig")
    delta = table.newRowDelta()
    names = {column.lower(): column for column in rows.column_names}
    schema = _schema(spark, table, names)
    level = table.properties().getOrDefault(_LEVEL_SETTING, _LEVEL)
    for part, some in _parts(spec, rows):
        chosen = some.select([names[name.lower()] for name in schema.names])
        file = _write(table, chosen.rename_columns(schema.names).cast(schema), part, level)
        data = java_class(spark, "org.apache.iceberg.DataFiles").builder(spec).withInputFile(file)
        data = data.withMetrics(parquet.fileMetrics(file, config.forTable(table)))
        delta.addRows((data.withPartitionPath(part) if part else data).build())
    for part, some in _parts(spec, places) if places is not None else ():
        chosen = some.select(_PLACES.names).sort_by([(name, "ascending") for name in _PLACES.names]).cast(_PLACES)
        file = _write(table, chosen, part, _LEVEL)
        gone = java_class(spark, "org.apache.iceberg.FileMetadata").deleteFileBuilder(spec).ofPositionDeletes()
        gone = gone.withInputFile(file).withMetrics(parquet.fileMetrics(file, config.forPositionDelete()))
        delta.addDeletes((gone.withPartitionPath(part) if part else gone).build())
    for key, value in summary.items():
        delta.set(key, value)
    return delta.scanManifestsWith(java_class(spark, _EXECUTORS).newDirectExecutorService()).apply()


def _write(table: Any, rows: pa.Table, part: str, level: str) -> Any:
    """Write rows to a file beside the table's others; give it as Iceberg's ``InputFile``."""
    path = table.locationProvider().newDataLocation("/".join(filter(None, (part, f"{uuid.uuid4().hex}.parquet"))))
    sink = io.BytesIO()
    pq.write_table(
        rows, sink, compression=_CODEC, compression_level=int(level), store_schema=False, store_decimal_as_integer=True
    )
    stream = table.io().newOutputFile(path).create()
    stream.write(sink.getvalue())
    stream.close()
    return table.io().newInputFile(path)


def _parts(spec: Any, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Split rows by the table's parts, with their folders; parts without rows are left out."""
    name = _part(spec)
    if name is None:
        if rows.num_rows:
            yield "", rows
        return
    for value in pc.unique(rows[name]):
        text = str(value.as_py())
        yield f"{name}={text.lower() if name == LIVING else text}", rows.filter(pc.equal(rows[name], value))


def _part(spec: Any) -> str | None:
    """Name the column that a table is parted by, where it is one as it is; None for any other table."""
    fields = spec.fields()
    return str(fields[0].name()) if len(fields) == 1 and bool(fields[0].transform().isIdentity()) else None


def _schema(spark: SparkSession, table: Any, names: Container[str]) -> pa.Schema:
    """Read those columns of a table that are among lower-case names, with the numbers that Iceberg knows them by."""
    text = java_class(spark, "org.apache.iceberg.SchemaParser").toJson(table.schema())
    return pa.schema(_field(column) for column in json.loads(text)["fields"] if column["name"].lower() in names)


def _field(column: Mapping[str, Any]) -> pa.Field:
    return pa.field(column["name"], _kind(column["type"]), metadata={"PARQUET:field_id": str(column["id"])})


def _kind(of: str | Mapping[str, Any]) -> pa.DataType:
    """Give Arrow's type for one of Iceberg's, in the words of its JSON."""
    if isinstance(of, str):
        digits = _DECIMAL.fullmatch(of)
        return pa.decimal128(int(digits[1]), int(digits[2])) if digits else _KINDS[of]
    if of["type"] == "list":
        return pa.list_(_field({"name": "element", "type": of["element"], "id": of["element-id"]}))
    return pa.struct(map(_field, of["fields"]))
