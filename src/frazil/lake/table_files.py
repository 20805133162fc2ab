"""The files of a table at a snapshot, listed and opened without Spark."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frazil.host import usable_cores
from frazil.iceberg.files import SMALL_BYTES, read_kept
from frazil.iceberg.metadata import live_files, local_path, manifests
from frazil.lake.file_writer import FIELD_ID, FILE_PATH, POS, arrow_type, nested_type
from frazil.spark.gateway import java_class, java_table, schema_fields
from frazil.steps import NeedsSpark
from frazil.storage.files import storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from frazil.iceberg.snapshot import TableSnapshot

_ROWS, _PLACES = 0, 1
"""Iceberg's codes for the content of a file: data, position deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a table.

    Attributes:
        address, size_bytes: its address and size.
        rows: number of rows, including deleted ones.
        partition: partition column -> value.
        highest: column id -> upper bound, as Iceberg writes it.
    """

    address: str
    size_bytes: int
    rows: int
    partition: Mapping[str, Any]
    highest: Mapping[int, bytes]

    @classmethod
    def of(cls, file: Mapping[str, Any]) -> Self:
        """Read what a manifest says of a file."""
        return cls(
            address=file["file_path"],
            size_bytes=file["file_size_in_bytes"],
            rows=file["record_count"],
            partition=file["partition"],
            highest={bound["key"]: bound["value"] for bound in file.get("upper_bounds") or ()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The files of a table at a snapshot.

    Attributes:
        fields: column name -> column id and Arrow type, without nested and rare types.
        nested: the same for lists and structs.
        rows: address -> data file.
        deleted: address of a data file -> positions of deleted rows, with repeats.
        places: address -> position delete file.
        address: maps an address to one that this process can open.
    """

    fields: Mapping[str, tuple[int, pa.DataType]]
    nested: Mapping[str, tuple[int, pa.DataType]]
    rows: Mapping[str, TableFile]
    deleted: Mapping[str, Sequence[NDArray[np.int64]]]
    places: Mapping[str, TableFile]
    address: Callable[[str], str]

    @property
    def size_bytes(self) -> int:
        """Size of the data files."""
        return sum(file.size_bytes for file in self.rows.values())

    def open(self, address: str, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
        """Open a data file; columns in ``dictionaries`` are read dictionary-encoded."""
        return _open(self.rows[address], self.address, dictionaries)

    def lives(self, address: str) -> NDArray[np.bool_]:
        """Return a mask of the rows of a file that are not deleted."""
        lives = np.ones(self.rows[address].rows, np.bool_)
        for rows in self.deleted.get(address, ()):
            lives[rows] = False
        return lives

    def inside(self, file: pq.ParquetFile, names: Iterable[str]) -> dict[str, str | None] | None:
        """Map the table's columns to names in a file, None if missing; None for a file without column ids."""
        by_id, columns = {}, self.columns
        for field in file.schema_arrow:
            number = _number(field)
            if number is None:
                return None
            by_id[number] = field.name
        return {name: by_id.get(columns[name][0]) for name in names}

    @property
    def columns(self) -> dict[str, tuple[int, pa.DataType]]:
        """Both plain and nested ones."""
        return {**self.fields, **self.nested}

    def living(self, address: str) -> pa.Table | None:
        """Read the rows of a file that are not deleted, in the table's types; missing columns are NULL.

        Returns:
            All of :attr:`columns`; None if the file has no column ids, or other nested types.

        Cost: reads the whole file into memory.
        """
        columns = self.columns
        with self.open(address) as file:
            inside, schema = self.inside(file, columns), file.schema_arrow
            if inside is None:
                return None
            there = {name: mine for name, mine in inside.items() if mine is not None}
            if not all(
                _is_same(schema.field(there[name]).type, self.nested[name][1])
                for name in there.keys() & self.nested.keys()
            ):
                return None
            rows = file.read(columns=[*there.values()], use_threads=False)
        size = self.rows[address].rows
        read = {
            name: rows[there[name]].cast(kind) if name in there else pa.nulls(size, kind)
            for name, (_, kind) in columns.items()
        }
        return pa.table(read).filter(pa.array(self.lives(address)))

    def gone(self, address: str) -> pa.Table:
        """Read a position delete file."""
        with _open(self.places[address], self.address) as opened:
            return opened.read(columns=[FILE_PATH, POS], use_threads=False)

    def of_partition(self, column: str, value: object) -> Self:
        """Leave out the files of other partitions."""
        rows = {at: file for at, file in self.rows.items() if file.partition.get(column, value) == value}
        return replace(self, rows=rows)

    def not_below(self, bounds: Mapping[str, pa.Scalar]) -> Self:
        """Leave out files whose upper bounds are below ``bounds`` in every given column."""
        wanted = [(*self.fields[name], least) for name, least in bounds.items()]
        rows = {
            at: file
            for at, file in self.rows.items()
            if any(_reaches(file.highest.get(number), kind, least) for number, kind, least in wanted)
        }
        return replace(self, rows=rows)


def _number(field: pa.Field) -> int | None:
    """Return Iceberg's id of a field; None in a file that another program wrote without ids."""
    number = (field.metadata or {}).get(FIELD_ID)
    return None if number is None else int(number)


def _is_same(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two types have the same fields, by their ids, in the same order."""
    mine, theirs = ([kind.field(at) for at in range(kind.num_fields)] for kind in (one, other))
    if not mine and not theirs:
        return bool(one == other)
    are_alike = one.id == other.id and len(mine) == len(theirs)
    return are_alike and all(
        _number(a) == _number(b) and _is_same(a.type, b.type) for a, b in zip(mine, theirs, strict=True)
    )


def _reaches(highest: bytes | None, kind: pa.DataType, least: pa.Scalar) -> bool:
    """Return whether a bound of a column of a type, as Iceberg writes it, is not below a value."""
    if highest is None:
        return True
    if pa.types.is_integer(kind):
        return bool(int.from_bytes(highest, "little", signed=True) >= least.as_py())
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return bool(int.from_bytes(highest, "little", signed=True) >= least.cast(kind).value)
    if pa.types.is_decimal(kind):
        return bool(Decimal(int.from_bytes(highest, "big", signed=True)).scaleb(-kind.scale) >= least.as_py())
    if pa.types.is_string(kind):
        return bool(highest >= least.as_py().encode())  # by bytes, as Spark orders texts
    return True


def table_files(
    spark: SparkSession, name: str, at: TableSnapshot, address: Callable[[str], str]
) -> TableFiles | NeedsSpark:
    """Return the files of a table at a snapshot, with the columns that the table has now.

    Args:
        spark: a session.
        name: quoted name of a table.
        at: a snapshot of the table.
        address: maps an address to one that this process can open.

    Returns:
        The files. Spark is needed without a snapshot, and where only Iceberg can read them: other files than Parquet,
        deletes by other things than places, and columns that files do not have and that are not NULL.

    Raises:
        StorageError: a manifest is damaged, or its store does not answer.
        OSError: a file of places cannot be read.
        pyarrow.ArrowException: it is damaged.

    Cost: reads the snapshot's manifests, and the places of deleted rows, into memory.
    """
    table = java_table(spark, name)
    if at.manifest_list is None:
        return NeedsSpark("files")
    fields = schema_fields(spark, table.schema())
    if any("initial-default" in field for field in fields):
        return NeedsSpark("files")
    found: dict[int, dict[str, TableFile]] = {_ROWS: {}, _PLACES: {}}
    for manifest in manifests(address(at.manifest_list), read_kept):
        if (manifest.get("added_files_count"), manifest.get("existing_files_count")) == (0, 0):
            continue  # it only lists removed files
        for entry in live_files(address(manifest["manifest_path"]), read_kept):
            file = entry["data_file"]
            content = file.get("content", _ROWS)
            if content not in found or file["file_format"].upper() != "PARQUET":
                return NeedsSpark("files")
            found[content][file["file_path"]] = TableFile.of(file)
    plain = ((field["name"], field["id"], field["type"]) for field in fields if isinstance(field["type"], str))
    known = {name: (number, kind) for name, number, of in plain if (kind := arrow_type(of)) is not None}
    others = ((field["name"], field["id"], field["type"]) for field in fields if not isinstance(field["type"], str))
    nested = {name: (number, kind) for name, number, of in others if (kind := nested_type(of)) is not None}
    deleted = _deleted(found[_PLACES].values(), address)
    return TableFiles(
        fields=known, nested=nested, rows=found[_ROWS], deleted=deleted, places=found[_PLACES], address=address
    )


def _deleted(files: Collection[TableFile], address: Callable[[str], str]) -> Mapping[str, Sequence[NDArray[np.int64]]]:
    """Read position delete files: address of a data file -> positions of deleted rows."""

    def read(file: TableFile) -> list[tuple[str, NDArray[np.int64]]]:
        with _open(file, address) as opened:
            places = opened.read(columns=[FILE_PATH, POS], use_threads=False)
        paths, rows = places[FILE_PATH].combine_chunks().dictionary_encode(), places[POS].to_numpy()
        numbers = paths.indices.to_numpy()
        return [(f"{path}", rows[numbers == number]) for number, path in enumerate(paths.dictionary.to_pylist())]

    found = defaultdict[str, list[Any]](list)
    with ThreadPoolExecutor(usable_cores()) as pool:
        for places in pool.map(read, files):
            for path, rows in places:
                found[path].append(rows)
    return found


def _open(file: TableFile, address: Callable[[str], str], dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    path = local_path(file.address)
    if path is not None:
        return pq.ParquetFile(path, read_dictionary=dictionaries)
    place = address(file.address)
    if file.size_bytes <= SMALL_BYTES:
        return pq.ParquetFile(pa.BufferReader(read_kept(place)), read_dictionary=dictionaries)
    return pq.ParquetFile(storage_of(place).open(place), read_dictionary=dictionaries, pre_buffer=True)


_SCHEME: Final = "file:"


def local_data_files(
    spark: SparkSession,
    name: str,
    snapshot_id: int,
    values: Mapping[str, Sequence[str]],
    above: tuple[str, int],
) -> list[Path] | NeedsSpark:
    """Return the local Parquet files that may have rows with some values.

    Args:
        spark: a session.
        name: quoted name of a table.
        snapshot_id: the snapshot that is read.
        values: column -> values; a row may have any of them.
        above: a column, and the number that it must be greater than.

    Returns:
        The paths of the files. Spark is needed if a file is not local or not Parquet, or if rows of a file are deleted.
    """
    table = java_table(spark, name)
    expressions = java_class(spark, "org.apache.iceberg.expressions.Expressions")
    condition = expressions.greaterThan(*above)
    for column, some in values.items():
        either = expressions.alwaysFalse()
        for value in some:
            either = getattr(expressions, "or")(either, expressions.equal(column, value))
        condition = getattr(expressions, "and")(condition, either)
    found = []
    tasks = table.newScan().useSnapshot(snapshot_id).filter(condition).planFiles()
    try:
        iterator = tasks.iterator()
        while iterator.hasNext():
            task = iterator.next()
            path = Path(str(task.file().location()).removeprefix(_SCHEME))
            if task.deletes().size() or path.suffix != ".parquet" or not path.is_file():
                return NeedsSpark("files")
            found.append(path)
    finally:
        tasks.close()
    return sorted(found)
