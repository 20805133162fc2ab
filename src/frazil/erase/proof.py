"""Prove that no file of the lake holds an erased key or a replaced value."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.catalog.conf import lake_address
from frazil.erase.report import EraseProof
from frazil.erase.subjects import PARTS
from frazil.iceberg.metadata import local_path
from frazil.lake.refs import refs_of, snapshots_of
from frazil.silver.old_keys import key_text
from frazil.spark.gateway import hold, java_table
from frazil.spec.contract import final_names
from frazil.spec.model.stores import is_store
from frazil.spec.pii import DROP, HMAC, MASK, MASKED
from frazil.spec.sql.names import quote
from frazil.storage import store_client
from frazil.storage.files import storage_of
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from frazil.erase.job import EraseJob
    from frazil.runner.batch.erased import ErasedKeys
    from frazil.spec.tables import LakeTable

_TEXT: Final = "_cdc_text"
_MOST_KEYS: Final = 1_000_000
_SHAPES: Final = {DROP: "(?!)", MASK: f"\\Q{MASKED}\\E", HMAC: "[0-9a-f]{64}"}
_BOUNDS: Final = {DROP: "(?!)", MASK: f"\\Q{MASKED}\\E", HMAC: "[0-9a-g]{1,64}"}
"""Patterns of replaced values, and of their bounds in file statistics, which may be truncated."""


def prove(job: EraseJob, erased: ErasedKeys, subjects: int, *, by_hash: int = 0) -> EraseProof:
    """Search all tables of an erase for remaining keys.

    The search covers rows of the keys, bounds in the statistics of files, other snapshots, branches and tags, and files
    without a reference. For keys that are texts it also covers every file below the tables' folders: its bytes, its
    string columns, and manifests.

    Args:
        job: the erase.
        erased: the hashes of the keys.
        subjects: number of subjects.
        by_hash: number of keys that are known only by hash, from a killed erase.

    Cost: this process reads each file once. Spark reads the keys of bronze. Spark reads the keys of other tables only
    if the search of files does not cover them all, and string columns only if this process cannot read the files.
    """
    found: list[tuple[str, int]] = []
    rows = files = 0
    texts = _texts_to_find(job)
    words = [] if texts is None else [row[_TEXT] for row in texts.limit(_MOST_KEYS).collect()]
    search = TextSearch(words)
    are_words = not by_hash and len(job.contract.keys) == 1 and len(words) == subjects
    for made in job.tables:
        rows += int(job.context.spark.table(quote(*made.path)).count())
        checks = [*_bounds(job, erased, made), *other_versions(job, made)]
        there = files_below(job, made)
        if there is None or not are_words or made.role == "bronze":
            checks += _rows(job, made)
        if there is not None:
            files += len(there)
            checks += [*_in_files(made, there, search), unknown_files(job, made, there)]
        elif texts is not None:
            checks += _values_like(job, made, texts)
        found += [(place, count) for place, count in checks if count]
    searched = search.has_texts and not by_hash
    return EraseProof(rows=rows, files=files, bytes_searched=searched, by_hash=by_hash, found=tuple(found))


def _texts_to_find(job: EraseJob) -> DataFrame | None:
    """Return the texts to search for, as ``_cdc_text``: values of string key columns that are long enough.

    For composite keys, a value that another row has in the same column is left out: it does not identify the subject,
    such as a shop that has other orders. The name of a shard is left out too.

    Returns:
        One row for each text; None if no key column is a string.
    """
    keys, shard = job.contract.keys, job.context.table.source.shard_column
    types = {column.name: column.type for column in job.contract.columns}
    numbers = [number for number, name in enumerate(keys) if types[name] == "string" and name != shard]
    if job.subjects is None or not numbers:
        return None
    left = job.spark.table(quote(*job.context.changes))
    found = []
    for number in numbers:
        texts = job.subjects.select(F.col(PARTS)[number].alias(_TEXT)).where(f"length({_TEXT}) >= {LEAST_BYTES}")
        if len(keys) > 1:
            same = left.select(F.col(quote(keys[number])).alias(_TEXT))
            shared = same.join(F.broadcast(texts), _TEXT, "left_semi").distinct()
            texts = texts.join(F.broadcast(shared), _TEXT, "left_anti")
        found.append(texts)
    return hold(reduce(DataFrame.unionByName, found).distinct())


def _rows(job: EraseJob, made: LakeTable) -> Iterator[tuple[str, int]]:
    if made.role == "bronze":
        yield f"{made.full_name} records", job.records().count()
    elif made.role not in ("gold", "quarantine"):
        yield f"{made.full_name} rows", job.count(made) or 0


def _bounds(job: EraseJob, erased: ErasedKeys, made: LakeTable) -> Iterator[tuple[str, int]]:
    """Count erased keys among the lower and upper bounds that manifests have of each file."""
    if len(job.contract.keys) > 1 or made.role in ("gold", "quarantine", "bronze"):
        return
    (key,) = job.contract.keys
    # A manifest may have bounds of removed files too.
    files = job.context.spark.sql(f"SELECT * FROM {quote(*made.path)}.entries")
    bounds = ", ".join(f"readable_metrics.{quote(key)}.{bound}_bound" for bound in ("lower", "upper"))
    values = files.select(F.explode(F.expr(f"array({bounds})")).alias(key))
    yield f"{made.full_name} bounds", values.where(erased.is_erased(key_text([key]))).count()


def other_versions(job: EraseJob, made: LakeTable) -> Iterator[tuple[str, int]]:
    """Count a table's older snapshots, branches and tags."""
    spark = job.context.spark
    yield f"{made.full_name} older snapshots", max(snapshots_of(spark, made.path) - 1, 0)
    yield f"{made.full_name} branches and tags", len(refs_of(spark, made.path))


def _values_like(job: EraseJob, made: LakeTable, texts: DataFrame) -> Iterator[tuple[str, int]]:
    """Count the texts in all string columns: another row may name the subject."""
    table = job.context.spark.table(quote(*made.path))
    names = [field.name for field in table.schema if field.dataType.simpleString() == "string"]
    if made.role == "bronze":
        names = [name for name in names if name not in r.BRONZE_COLUMNS]
    if names:
        values = table.select(F.explode(F.array(*map(quote, names))).alias(_TEXT))
        yield f"{made.full_name} values", values.join(F.broadcast(texts), _TEXT, "left_semi").count()


def files_below(job: EraseJob, made: LakeTable) -> list[str] | None:
    """List the files below a table's folder by address; None if this process cannot read them."""
    location = str(java_table(job.context.spark, quote(*made.path)).location())
    if (folder := local_path(location)) is not None:
        return [f"{path}" for path in folder.rglob("*") if path.is_file()]
    if not is_store(location):
        return None
    address = lake_address(job.context.pipeline, location)
    if not isinstance(address, StoreAddress):
        return None
    root = location.removesuffix(address.key)
    listed = store_client.keys(address.access, address.key)
    return [address.beside(f"{root}{one['path']}") for some in listed for one in some if one["size"]]


def unknown_files(job: EraseJob, made: LakeTable, there: Sequence[str]) -> tuple[str, int]:
    """Count data files that the newest snapshot does not reference.

    Args:
        job: the erase.
        made: the table.
        there: addresses of all files below the table's folder.

    Returns:
        (place, count).
    """
    spark, name = job.context.spark, quote(*made.path)
    known = {row[0].rpartition("/")[2] for row in spark.sql(f"SELECT file_path FROM {name}.files").collect()}
    rows = [file for file in there if file.endswith(".parquet") and "/data/" in file]
    return f"{made.full_name} files of no snapshot", sum(file.rpartition("/")[2] not in known for file in rows)


def _in_files(made: LakeTable, there: Sequence[str], search: TextSearch) -> Iterator[tuple[str, int]]:
    """Search bytes and string columns of files: another row may name the subject."""
    if search.has_texts:
        own = r.BRONZE_COLUMNS if made.role == "bronze" else ()
        hits = [search.look_through(file, own) for file in there]
        yield f"{made.full_name} bytes of files", sum(one.in_bytes for one in hits)
        yield f"{made.full_name} values", sum(one.values for one in hits)


def left_values(job: EraseJob, ways: Mapping[str, str]) -> tuple[int, int, tuple[tuple[str, int], ...]]:
    """Search for values that are not replaced, and for old snapshots and files that may have them.

    Args:
        job: gives the tables.
        ways: treated fields of the source, each with its treatment.

    Returns:
        Number of searched rows, number of searched files, and (place, count) of each finding.

    Cost: one scan of the treated columns of bronze, silver and marts.
    """
    rows = files = 0
    found: list[tuple[str, int]] = []
    for made in job.tables:
        rows += int(job.spark.table(quote(*made.path)).count())
        there = files_below(job, made)
        files += len(there or ())
        found += [*other_versions(job, made), *_values(job, made, ways)]
        if there is not None:
            found.append(unknown_files(job, made, there))
    return rows, files, tuple((place, count) for place, count in found if count)


def _values(job: EraseJob, made: LakeTable, ways: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Count untreated values of treated columns, in rows and among the bounds in manifests."""
    if made.role in ("gold", "quarantine"):
        return
    finals = final_names(job.context.table)
    by_name = {name if made.role == "bronze" else finals.get(name.lower(), name): way for name, way in ways.items()}
    table = job.spark.table(quote(*made.path))
    entries = job.spark.table(f"{quote(*made.path)}.entries")
    there = {name.lower(): name for name in table.columns}
    for name, way in by_name.items():
        column = there.get(name.lower())
        if column is None:
            continue
        values = table.where(F.col(quote(column)).isNotNull() & ~F.col(quote(column)).rlike(f"^{_SHAPES[way]}$"))
        yield f"{made.full_name} {column}", values.count()
        ends = ", ".join(f"readable_metrics.{quote(column)}.{end}_bound" for end in ("lower", "upper"))
        bounds = entries.select(F.explode(F.expr(f"array({ends})")).alias("end")).where(F.col("end").isNotNull())
        yield f"{made.full_name} bounds of {column}", bounds.where(~F.col("end").rlike(f"^{_BOUNDS[way]}$")).count()


LEAST_BYTES: Final = 6
"""Files contain shorter texts by chance."""
_WORD: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.@+-")
"""Signs of a word: next to one of them, a text is a part of another one."""
_QUOTE: Final = ord('"')
_MORE: Final = 0x80
"""Bit of a byte that another one follows."""
_SLICE_BYTES: Final = 4 * 1024 * 1024
_MOST_PAIRS: Final = 16
_BATCH_ROWS: Final = 131_072


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """Occurrences of the texts in one file.

    Attributes:
        values: number of column values that equal one of the texts.
        in_bytes: whether the bytes of the file, or a record of Avro, contain one of the texts.
    """

    values: int = 0
    in_bytes: bool = False


class TextSearch:
    """Search for any number of texts in one pass.

    Args:
        texts: texts of at least six bytes each.
    """

    def __init__(self, texts: Collection[str]) -> None:
        self._values = pa.array(sorted(texts), pa.string())
        self._texts = {text.encode() for text in texts}
        self._lengths = sorted({len(text) for text in self._texts})
        self._firsts = _pairs(self._texts, self._lengths[0]) if self._texts else []

    @property
    def has_texts(self) -> bool:
        """Whether there are texts to search for."""
        return bool(self._texts)

    def look_through(self, address: str, without: Collection[str] = ()) -> Hits:
        """Search all bytes of a file and, for Parquet, each value of its string columns.

        Args:
            address: path or address of the file.
            without: names of columns whose values are not searched.

        Cost: one pass over the bytes, and one over the values, a batch of rows at a time. A remote file is copied to
        this machine's disk for the search.
        """
        with _mapped(address) as data:
            in_bytes = self.is_in(data) or (address.endswith(".avro") and any(map(self.is_in, _records(data))))
            return Hits(values=self._count(data, without) if address.endswith(".parquet") else 0, in_bytes=in_bytes)

    def is_in(self, data: pa.Buffer | bytes) -> bool:
        """Return whether the data contains a text by itself: as a word, in quotes, or after its length."""
        if not self._texts:
            return False
        whole = memoryview(data)
        every, longest = np.frombuffer(whole, np.uint8), self._lengths[-1]
        for start in range(0, len(whole), _SLICE_BYTES):
            some = every[start : start + _SLICE_BYTES + longest]
            for place in self._places(some):
                for length in self._lengths:
                    here = start + place
                    if bytes(whole[here : here + length]) in self._texts and _stands_alone(whole, here, length):
                        return True
        return False

    def _places(self, some: Any) -> Iterator[int]:
        """Yield candidate positions: every pair of bytes from there on occurs at that offset in one of the texts."""
        for odd in (0, 1):
            pairs = some[odd : odd + (len(some) - odd) // 2 * 2].view("<u2")
            last = len(pairs) - len(self._firsts)
            found = np.flatnonzero(self._firsts[0][pairs[: max(last + 1, 0)]])
            for number, first in enumerate(self._firsts[1:], 1):
                if len(found) == 0:
                    break
                found = found[first[pairs[found + number]]]
            yield from (2 * int(place) + odd for place in found)

    def _count(self, data: pa.Buffer, without: Collection[str]) -> int:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]
        names = [name for name in names if name not in without]
        count, rows = 0, max(_BATCH_ROWS, len(self._values))
        for batch in file.iter_batches(batch_size=rows, columns=names) if names else ():
            for column in batch.columns:
                count += pc.sum(pc.is_in(column, value_set=self._values)).as_py() or 0
        return count


def _pairs(texts: Iterable[bytes], least: int) -> list[Any]:
    """Return for each offset a mask over all 65,536 pairs of bytes: the pairs that a text has there."""
    many = min(least // 2, _MOST_PAIRS)
    found = np.frombuffer(b"".join(text[: 2 * many] for text in texts), "<u2").reshape(-1, many)
    tables = []
    for column in found.T:
        table = np.zeros(65_536, bool)
        table[column] = True
        tables.append(table)
    return tables


def _stands_alone(data: memoryview, start: int, length: int) -> bool:
    """Return whether a text is not part of a longer one.

    Its length precedes it, as in Parquet, Thrift and Avro, or no word characters surround it. A text that is not a word
    itself must be in quotes, because a longer text may contain it between other words.
    """
    before, after = bytes(data[max(start - 4, 0) : start]), data[start + length : start + length + 1]
    if before == length.to_bytes(4, "little") or before.endswith((_varint(length), _varint(2 * length))):
        return True
    beside = {*before[-1:], *after}
    if _WORD.issuperset(data[start : start + length]):
        return _WORD.isdisjoint(beside)
    return beside == {_QUOTE}


def _varint(number: int) -> bytes:
    """Return a number as bytes in groups of seven bits, lowest first."""
    groups = bytearray()
    while number >= _MORE:
        groups.append(number % _MORE | _MORE)
        number //= _MORE
    return bytes([*groups, number])


@contextmanager
def _mapped(address: str) -> Iterator[pa.Buffer]:
    """Yield the bytes of a file, mapped into memory."""
    if (path := local_path(address)) is not None:
        yield _buffer(f"{path}")
        return
    with tempfile.NamedTemporaryFile(prefix="frazil-") as copy, storage_of(address).open(address) as file:
        shutil.copyfileobj(file, copy)
        copy.flush()
        yield _buffer(copy.name)


def _buffer(path: str) -> pa.Buffer:
    with pa.memory_map(path) as file:
        return file.read_buffer()


def _records(data: pa.Buffer) -> Iterator[bytes]:
    """Yield the unpacked values of each record of an Avro file."""
    for record in fastavro.reader(pa.BufferReader(data)):
        yield b"\0".join([b"", *_unpacked_values(record), b""])


def _unpacked_values(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _unpacked_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _unpacked_values(inner)
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
