"""Append new files to bronze: records, bad records and the files themselves in one commit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Observation
from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.bronze.pii import treated_bookmark, treatment_of, verify_key
from frazil.bronze.read import Batch, duplicate, records, spark_ddl
from frazil.failpoints import failpoint
from frazil.lake.tables import ensure
from frazil.older_spark import from_arrow, to_arrow
from frazil.plan.layout import bronze_layout
from frazil.runner.batch.batch_stats import Ingested
from frazil.runner.batch.bronze_records import keep_ledger
from frazil.runner.batch.driver_batch import spark_frame
from frazil.runner.batch.emptied import empty_arrived
from frazil.runner.batch.erased import erased_keys, without_erased
from frazil.silver.baseline import kept_baseline
from frazil.silver.evolution import OFFERED, later_fields, offered_types, taken_otherwise
from frazil.sources.eras import ERAS, follow, moves_told
from frazil.sources.kinds import source_of
from frazil.sources.record_files import NAMES, known_names
from frazil.spark.gateway import is_local
from frazil.spec.amount import counted, sized
from frazil.spec.pii import declared_pii
from frazil.spec.tables import ERASED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from frazil.iceberg.snapshot import TableSnapshot
    from frazil.plan.policy import Policy, Reader
    from frazil.runner.batch.erased import ErasedKeys
    from frazil.runner.report import TableReport
    from frazil.runner.table_run import TableRun
    from frazil.sources.base import NewFile
    from frazil.steps import Ingest

_COUNTED = ("rows", "bad", "headers", "foreign")
"""Counts in a file's ledger row that the report adds up."""


def ingest(context: TableRun, step: Ingest) -> Ingested:
    """Append files unchanged to the bronze table."""
    context.tell(f"read {counted(len(step.files), 'file')}")
    spark, base, source = context.spark, context.head(context.bronze), source_of(context.table)
    step, eras = _followed(context, step, base.bookmark)
    columns = source.columns(step.files, tuple(base.bookmark.get("fields", ())))
    treatment = treatment_of(context.pipeline, context.table)
    verify_key(context.table, base.bookmark, treatment)
    new = Batch(source=source, columns=columns, number=step.batch, arrived_at=context.now, treatment=treatment)
    ensure(spark, bronze_layout(context.tables.bronze, new.columns))
    erased = erased_keys(context)
    who = reader(context, step.size_bytes, erased=erased is not None)
    reading = Reading(step.files, context.progress)
    here = _read_here(step, new, reading, context.policy) if who == "driver" else None
    failpoint("bronze.before_write")
    known = _known_fields(context, step, new, base.bookmark) | eras | ({} if erased is None else {ERASED: True})
    known |= {} if treatment is None else treatment.bookmark
    known |= treated_bookmark(context.table, known["fields"], base.bookmark)
    reading_settings = {**source.reading(), **declared_pii(context.table)}
    bookmark = context.bookmark("bronze", step.batch, reading=reading_settings, **known)
    empty = partial(_without_erased, context, erased, bookmark)
    here = None if here is None else to_arrow(empty(spark_frame(spark, here))).cast(here.schema) if erased else here
    with context.transaction(context.bronze, bookmark) as batch:
        batch.note(strategy=who, files=len(step.files), duplicates=len(step.duplicates))
        takes_rows = batch.takes_rows
        told = [] if here is None else [here]
        if here is not None and takes_rows:
            batch.row_delta(here)
            seen = _counts(told)
        elif who == "stream" and takes_rows:
            streams = _streams(step, new, reading, context.policy)
            batch.stream([_pieces(some, new, told) for some in streams], new.schema.names)
            pa.default_memory_pool().release_unused()
            seen = _counts(told)
        else:
            counts = Observation()
            sums = (F.expr(f"coalesce(sum({r.LEDGER}.{part}), 0) AS {part}") for part in _COUNTED)
            rows = empty(_read_there(context, step, new)) if here is None else spark_frame(context.spark, here)
            batch.append(rows.observe(counts, *sums))
            seen = counts.get
        failpoint("bronze.before_publish")
        batch.publish()
    failpoint("bronze.after_publish")
    _end_batch(context, base, told, None if erased is None else step.batch)
    _report(context.report, step, seen)
    return Ingested(batch=step.batch, rows=here, has_loads=any(file.load for file in step.files))


def _followed(context: TableRun, step: Ingest, before: Mapping[str, Any]) -> tuple[Ingest, dict[str, Any]]:
    """Find moves to another server and second tables; return the step, and entries of bronze's bookmark."""
    table = context.table
    followed = follow(table.name, step.files, before.get(ERAS, {}), stops=not table.sequence_by)
    context.report.warnings += moves_told(followed.moves)
    names = known_names(table, before, step.files)
    kept = {ERAS: followed.kept, NAMES: names}
    return replace(step, files=followed.files), {key: values for key, values in kept.items() if values}


def _known_fields(context: TableRun, step: Ingest, new: Batch, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of bronze's bookmark on the fields of the source, after a batch; warn of other types.

    ``fields``: name -> type. ``since``: name -> batch, for fields added after the first batch. ``later``: fields of the
    first batch that its first file lacks. ``lists``: a record lists the columns it has; tables without the entry count
    as true. ``corrections``: batches of corrected records. ``baseline``: the horizon before which records are folded.
    ``offered``: see :func:`frazil.silver.evolution.offered_types`.
    """
    fields = dict(before.get("fields", {}))
    types = new.source.known_fields(fields, [file.fields for file in step.files if not file.broken])
    arrived = [column for column in new.columns if column not in fields]
    since = dict(before.get("since", {})) | (dict.fromkeys(arrived, step.batch) if fields else {})
    lists = before.get("lists", bool(fields)) or any(
        opened.known is not None or opened.lists
        for opened in (new.source.read(file, new.columns) for file in step.files if not file.broken)
    )
    named = [file.fields for file in step.files if not file.broken]
    later = before.get("later", []) if fields else later_fields(named)
    fields = {column: types.get(column, "string") for column in [*fields, *arrived]}
    corrections = {"corrections": before["corrections"]} if "corrections" in before else {}
    offered = offered_types(before.get(OFFERED, {}), named, fields)
    known = {"fields": fields, OFFERED: offered}
    context.report.warnings += taken_otherwise(context.table, before, known)
    return {
        "fields": fields,
        "since": since,
        "later": later,
        "lists": lists,
        **({OFFERED: offered} if offered else {}),
        **corrections,
        **kept_baseline(before),
    }


def _report(report: TableReport, step: Ingest, seen: Mapping[str, Any]) -> None:
    report.files, report.duplicates, report.size_bytes = len(step.files), len(step.duplicates), step.size_bytes
    report.rows, report.bad = int(seen["rows"]), int(seen["bad"])
    report.headers, report.foreign = int(seen["headers"]), int(seen["foreign"])


def _without_erased(
    context: TableRun, erased: ErasedKeys | None, bookmark: Mapping[str, Any], rows: DataFrame
) -> DataFrame:
    return rows if erased is None else without_erased(context, rows, bookmark, erased)


def _end_batch(context: TableRun, base: TableSnapshot, told: Sequence[Any], with_erased: int | None) -> None:
    """Keep the ledger for the next run, and empty landing files where the table has erased keys."""
    if told:
        keep_ledger(context, base, told)
    if with_erased is not None:
        empty_arrived(context, with_erased)


def reader(context: TableRun, size_bytes: int, *, erased: bool = False) -> Reader:
    """Return the reader of a batch: PyArrow or Spark.

    PyArrow reads and writes files much faster than Spark on one machine. Spark reads a large batch on a cluster, or if
    the table has erased keys.

    Args:
        context: the table's part of the run.
        size_bytes: size of the batch.
        erased: the table's erased keys, if any.
    """
    policy = context.policy
    if policy.reader is not None:
        return "executors" if erased and policy.reader == "stream" else policy.reader
    if size_bytes <= policy.driver_bytes:
        return "driver"
    return "stream" if not erased and is_local(context.spark) else "executors"


def _read_here(step: Ingest, new: Batch, reading: Reading, policy: Policy) -> pa.Table:
    batches = [batch for some in _streams(step, new, reading, policy) for batch in some]
    return pa.Table.from_batches(batches, new.schema).combine_chunks()


def _streams(step: Ingest, new: Batch, reading: Reading, policy: Policy) -> list[Iterable[pa.RecordBatch]]:
    """Return all bronze rows of a batch, in streams that can be read in parallel."""
    again = [duplicate(file, new) for file in step.duplicates]
    read = partial(reading.of, partial(records, batch=new))
    return [
        *(chain.from_iterable(map(read, files)) for files in _bins(step.files, policy)),
        *([again] if again else []),
    ]


def _pieces(rows: Iterable[pa.RecordBatch], new: Batch, told: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows, and also collect ledger rows in a list."""
    for batch in rows:
        piece = pa.Table.from_batches([batch], new.schema)
        if piece[r.LEDGER].null_count < len(piece):
            told.append(piece)
        yield piece


def _counts(rows: Iterable[pa.Table]) -> dict[str, int]:
    ledger = pa.concat_tables(rows)[r.LEDGER].combine_chunks()
    return {part: pc.sum(pc.struct_field(ledger, part)).as_py() or 0 for part in _COUNTED}


def _read_there(context: TableRun, step: Ingest, new: Batch) -> DataFrame:
    bins = _bins(step.files, context.policy)
    columns = spark_ddl(new.columns)
    read = context.spark.range(0, len(bins), 1, len(bins)).mapInArrow(_reader(bins, new), columns)
    again = [duplicate(file, new) for file in step.duplicates]
    if not again:
        return read
    return read.unionByName(from_arrow(context.spark, pa.Table.from_batches(again, new.schema)))


def _reader(bins: Sequence[Sequence[NewFile]], new: Batch):  # type: ignore[no-untyped-def]  # noqa: ANN202
    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for file in bins[number]:
                    yield from records(file, new)
        # An idle worker would keep its memory for a minute, which the next steps need.
        pa.default_memory_pool().release_unused()

    return read


def _bins(files: Sequence[NewFile], policy: Policy) -> list[list[NewFile]]:
    """Group neighbouring files by size, one group per task, so that written files keep the source's order."""
    bins: list[list[NewFile]] = [[]]
    size = 0
    for file in files:
        if bins[-1] and (size + file.size_bytes > policy.task_bytes or len(bins[-1]) >= policy.task_files):
            bins.append([])
            size = 0
        bins[-1].append(file)
        size += file.size_bytes
    return bins


class Reading:
    """Counts the rows read from files, in any number of threads, and reports progress."""

    def __init__(self, files: Sequence[NewFile], tell: Callable[[str], None]) -> None:
        self._tell, self._lock = tell, Lock()
        self._files, self._size_bytes = len(files), sum(file.size_bytes for file in files)
        self._read_files = self._read_bytes = self._rows = 0

    def of(self, read: Callable[[NewFile], Iterable[pa.RecordBatch]], file: NewFile) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one file."""
        for rows in read(file):
            self._add(rows=rows.num_rows)
            yield rows
        self._add(files=1, size_bytes=file.size_bytes)

    def _add(self, *, rows: int = 0, files: int = 0, size_bytes: int = 0) -> None:
        with self._lock:
            self._rows += rows
            self._read_files += files
            self._read_bytes += size_bytes
            share = self._read_bytes / self._size_bytes if self._size_bytes else 1.0
            self._tell(
                f"{self._read_files:,} of {counted(self._files, 'file')}, "
                f"{sized(self._read_bytes)} of {sized(self._size_bytes)} ({share:.0%}), {counted(self._rows, 'row')}"
            )
