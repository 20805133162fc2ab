"""Delete rows by where they stand, in one commit and without a Spark job: position deletes of Iceberg's format 2.

What SQL's DELETE does in two jobs after looking for the rows a second time.
"""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.lake.gateway import java_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMA: Final = pa.schema(
    [
        # The numbers that Iceberg's format gives these columns.
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)
_LIVING: Final = "is_current"


def takes_positions(spark: SparkSession, name: str) -> bool:
    """Tell whether :func:`delete_places` can be used on a table.

    It needs a JVM gateway, format 2 (format 3 wants deletion vectors), and a table that was never partitioned, or only
    ever by ``is_current``.
    """
    table = java_table(spark, name)
    if table is None or table.operations().current().formatVersion() != 2:  # noqa: PLR2004 - the format's own number
        return False
    spec = table.spec()
    return table.specs().size() == 1 and (bool(spec.isUnpartitioned()) or _is_by_living(spec))


def delete_places(spark: SparkSession, name: str, branch: str, places: Any, *, living: bool) -> None:
    """Delete rows of a branch.

    Args:
        spark: a session with a JVM gateway.
        name: quoted name of the table.
        branch: name of the branch.
        places: Arrow table of ``file_path`` and ``pos``, at least one row.
        living: in a table parted by ``is_current``, which part they are in.

    Cost: one small file and one commit; some dozen bytes of memory a row.
    """
    table, jvm = java_table(spark, name), spark._jvm  # noqa: SLF001
    if table is None or jvm is None:
        raise TypeError(f"{name} cannot be reached through a JVM gateway")
    spec = table.spec()
    content = _file(places)
    path = table.locationProvider().newDataLocation(f"{uuid.uuid4().hex}-deletes.parquet")
    stream = table.io().newOutputFile(path).create()
    stream.write(content)
    stream.close()
    iceberg = jvm.org.apache.iceberg
    metrics = iceberg.parquet.ParquetUtil.fileMetrics(
        table.io().newInputFile(path), iceberg.MetricsConfig.forPositionDelete()
    )
    builder = iceberg.FileMetadata.deleteFileBuilder(spec).ofPositionDeletes().withPath(path)
    builder = builder.withFormat("parquet").withFileSizeInBytes(len(content)).withMetrics(metrics)
    if _is_by_living(spec):
        builder = builder.withPartitionPath(f"{_LIVING}={str(living).lower()}")
    table.newRowDelta().addDeletes(builder.build()).toBranch(branch).commit()


def _is_by_living(spec: Any) -> bool:
    fields = spec.fields()
    return len(fields) == 1 and fields[0].name() == _LIVING


def _file(places: Any) -> bytes:
    """Write a file of position deletes: sorted, as the format wants it."""
    ordered = places.sort_by([("file_path", "ascending"), ("pos", "ascending")])
    sink = io.BytesIO()
    pq.write_table(ordered.select(_SCHEMA.names).cast(_SCHEMA), sink, compression="zstd")
    return sink.getvalue()
