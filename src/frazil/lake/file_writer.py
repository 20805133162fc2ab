"""Write data files and position delete files of a table without a Spark job."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.iceberg.files import keep_written
from frazil.spark.gateway import java_class, schema_fields

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

FILE_PATH, POS, LIVING = "file_path", "pos", "is_current"
"""Columns of position deletes: file, row number, and the value of ``is_current`` if the table is partitioned by it."""

CODEC: Final = "zstd"
_LEVEL: Final = "3"
"""The level that Iceberg writes with."""
CODEC_SETTING, LEVEL_SETTING = "write.parquet.compression-codec", "write.parquet.compression-level"
FIELD_ID: Final = b"PARQUET:field_id"
"""Key of Iceberg's column id in Parquet's field metadata."""
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
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")
_PLACES: Final = pa.schema(
    [
        # The column ids of Iceberg's format.
        pa.field(FILE_PATH, pa.string(), nullable=False, metadata={FIELD_ID: b"2147483546"}),
        pa.field(POS, pa.int64(), nullable=False, metadata={FIELD_ID: b"2147483545"}),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWriter:
    """Writes files of a table, and returns them as Iceberg's ``DataFile`` and ``DeleteFile``.

    Attributes:
        spark: any session.
        table: Iceberg's Java table.
        folder: a local folder for files before they are copied to the table.
        schema: schema of the data files.
        columns: the input columns that are written, in the order of ``schema``.
        file_bytes: memory that the rows of one file take.
    """

    spark: SparkSession
    table: Any
    folder: Path
    schema: pa.Schema
    columns: Sequence[str]
    file_bytes: int

    @classmethod
    def of(cls, spark: SparkSession, table: Any, folder: Path, columns: Iterable[str], *, file_bytes: int) -> Self:
        """Return a writer of rows with some columns of a table.

        Args:
            spark: any session.
            table: Iceberg's Java table.
            folder: a local folder for unfinished files.
            columns: names of the rows' columns, in any case.
            file_bytes: memory that the rows of one file take.

        Raises:
            TypeError: Arrow has no type for one of the columns.
        """
        names = {column.lower(): column for column in columns}
        schema = _schema(spark, table, names)
        ordered = [names[name.lower()] for name in schema.names]
        return cls(spark=spark, table=table, folder=folder, schema=schema, columns=ordered, file_bytes=file_bytes)

    @property
    def parted_by(self) -> str | None:
        """Column that the table is partitioned by."""
        return part_column(self.table.spec())

    def rows(self, stream: Iterable[pa.Table]) -> list[Any]:
        """Write a stream of rows to files, each partition to files of its own."""
        parted_by = self.parted_by
        level = self.table.properties().getOrDefault(LEVEL_SETTING, _LEVEL)
        waiting: dict[str, list[pa.Table]] = {}
        files = []
        for rows in stream:
            for part, some in split_by_partition(parted_by, rows):
                mine = waiting.setdefault(part, [])
                mine.append(some.select(self.columns).rename_columns(self.schema.names).cast(self.schema))
                if sum(piece.nbytes for piece in mine) >= self.file_bytes:
                    files.append(self._rows_file(waiting.pop(part), part, level))
        return files + [self._rows_file(pieces, part, level) for part, pieces in waiting.items()]

    def places(self, places: pa.Table, part: str) -> Any:
        """Write one position delete file."""
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
            compression=CODEC,
            compression_level=int(level),
            row_group_size=max(rows.num_rows, 1),
            store_schema=False,
            store_decimal_as_integer=True,
        )
        # Iceberg's client writes to the table's storage. The file name is unique.
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


def split_by_partition(name: str | None, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the folder and the rows of each partition that has rows."""
    if name is None:
        if rows.num_rows:
            yield "", rows
        return
    values = pc.unique(rows[name])
    for value in values:
        text = str(value.as_py())
        some = rows if len(values) == 1 else rows.filter(pc.equal(rows[name], value))
        yield f"{name}={text.lower() if name == LIVING else text}", some


def part_column(spec: Any) -> str | None:
    """Return the column of a table's single identity partition; None for any other partition spec."""
    fields = spec.fields()
    return str(fields[0].name()) if len(fields) == 1 and bool(fields[0].transform().isIdentity()) else None


def _schema(spark: SparkSession, table: Any, names: Container[str]) -> pa.Schema:
    """Return the schema of some columns of a table, by lower-case names, with Iceberg's column ids."""
    fields = schema_fields(spark, table.schema())
    return pa.schema(_field(column) for column in fields if column["name"].lower() in names)


def _field(column: Mapping[str, Any]) -> pa.Field:
    return pa.field(column["name"], _kind(column["type"]), metadata={FIELD_ID: f"{column['id']}".encode()})


def arrow_type(of: str) -> pa.DataType | None:
    """Return Arrow's type for a primitive type of Iceberg's JSON; None if Arrow has none."""
    digits = _DECIMAL.fullmatch(of)
    return pa.decimal128(int(digits[1]), int(digits[2])) if digits else _KINDS.get(of)


def nested_type(of: Mapping[str, Any]) -> pa.DataType | None:
    """Return Arrow's type for a list or struct of Iceberg's JSON, with field ids; None if Arrow has none."""
    try:
        return _kind(of)
    except (TypeError, KeyError):
        return None


def _kind(of: str | Mapping[str, Any]) -> pa.DataType:
    """Return Arrow's type for a type of Iceberg's JSON."""
    if isinstance(of, str):
        kind = arrow_type(of)
        if kind is None:
            raise TypeError(of)
        return kind
    if of["type"] == "list":
        return pa.list_(_field({"name": "element", "type": of["element"], "id": of["element-id"]}))
    return pa.struct(map(_field, of["fields"]))
