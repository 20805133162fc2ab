"""Landing files that Frazil wrote, without the records of erased keys: these keep only their places."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.runner.batch.bronze_records import read_ledger
from frazil.sources.capture import EmptiesRecords
from frazil.sources.kinds import source_of
from frazil.spec.sql.names import quote
from frazil.storage.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from frazil.runner.table_run import TableRun
    from frazil.sources.ledger import KnownFile


class Emptying(NamedTuple):
    """A landing file with records of erased keys, or one that was emptied before the ledger got its new values.

    ``rows`` are the rows of these records; they are empty for a file that was emptied before.
    """

    source: EmptiesRecords
    path: str
    file: Path
    known: KnownFile
    rows: Sequence[int]

    @property
    def is_level(self) -> bool:
        """Whether the file has the size and time that the ledger has; an emptied file does not."""
        seen = self.file.stat()
        return (self.known.size_bytes, self.known.modified_ns) == (seen.st_size, seen.st_mtime_ns)


def to_empty(context: TableRun, source: EmptiesRecords, places: Iterable[tuple[str, list[int]]]) -> Iterator[Emptying]:
    """Yield the landing files with some records, and those that were emptied before; nothing is changed.

    A file that has changed since bronze read it is left out.

    Args:
        context: the table's part of the run.
        source: the source of the table.
        places: paths of files, each with the rows of the records.
    """
    files = read_ledger(context).files
    copies: dict[str, list[str]] = {}
    for path, copy in files.items():
        if copy.same_as is not None:
            copies.setdefault(copy.same_as, []).append(path)
    for first, rows in places:
        for path in (first, *copies.get(first, ())):
            file, known = context.pipeline.folder / path, files.get(path)
            if known is None or not file.is_file():
                continue
            left = () if source.is_emptied(file, rows) else tuple(rows)
            found = Emptying(source, path, file, known, left)
            is_done = found.is_level and not left
            if is_done or known.sha256 in (sha256_of(f"{file}"), source.emptied_from(f"{file}")):
                yield found


def empty_arrived(context: TableRun, batch: int) -> None:
    """Empty the landing files with records that arrived after their key was erased.

    The ledger keeps the old hash, which the file names, until the next erase of the table. A run that was killed before
    leaves its files to the next batch.

    Args:
        context: the table's part of the run; bronze has the batch.
        batch: the newest batch.

    Cost: a job that reads the erased records of two batches; one pass over each file that has one.
    """
    source = source_of(context.table)
    if not isinstance(source, EmptiesRecords):
        return
    bronze = context.spark.table(quote(*context.bronze))
    erased = bronze.where((F.col(r.KIND) == r.ERASED) & (F.col(r.BATCH) >= batch - 1))
    rows = erased.select(r.FILE, r.ROW).orderBy(r.FILE, r.ROW).toLocalIterator()
    places = ((path, [row[1] for row in some]) for path, some in groupby(rows, key=lambda row: row[0]))
    for one in to_empty(context, source, places):
        if one.rows:
            source.empty(one.file, one.rows, one.known.sha256)
