"""Prove that no file of the lake holds an erased key or a replaced value."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.catalog.conf import lake_address
from frazil.erase.report import EraseProof
from frazil.erase.subjects import PARTS
from frazil.erase.text_search import LEAST_BYTES, TextSearch
from frazil.iceberg.damage import local_path
from frazil.lake.refs import refs_of, snapshots_of
from frazil.silver.old_keys import key_text
from frazil.spark.gateway import hold, java_table
from frazil.spec.contract import final_names
from frazil.spec.model.stores import is_store
from frazil.spec.pii import DROP, HMAC, MASK, MASKED
from frazil.spec.sql.names import quote
from frazil.storage import store_client
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    table = java_table(job.context.spark, quote(*made.path))
    if table is None:
        return None
    location = str(table.location())
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
