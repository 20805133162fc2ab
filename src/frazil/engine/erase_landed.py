"""Empty the records of erased keys in the landing files that Frazil wrote itself, and tell the ledger."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.engine.erase_job import PLACES
from frazil.engine.ledger import read_ledger
from frazil.sources.capture import EmptiesRecords
from frazil.sources.kinds import source_of
from frazil.spec.names import literal, quote
from frazil.storage.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from frazil.engine.table_run import TableRun
    from frazil.sources.ledger import KnownFile

_CHANGED: Final = ("size_bytes", "modified_ns", "sha256")
_NEW: Final = "_cdc_new_"
_LINE: Final = f"{_NEW}path string, {_NEW}size_bytes long, {_NEW}modified_ns long, {_NEW}sha256 string"


class Emptied(NamedTuple):
    """A landing file that was emptied, as the ledger is to have it."""

    path: str
    size_bytes: int
    modified_ns: int
    sha256: str


def empty_landed(context: TableRun) -> tuple[list[Emptied], set[str]]:
    """Leave nothing of the subjects' records in landing files but their places; those of all others stay.

    Records that arrived after their key was erased, and which bronze has never held, are emptied too. A file that is no
    longer what bronze took stays as it is.

    Returns:
        The files whose line of the ledger is to change, and paths of all of which nothing of the subjects is left.
        Until its line changes, a run knows a file by what it says it was.

    Cost: one pass over each file that still has such a record, and a look at one column of those that had one before.
    """
    source = source_of(context.table)
    if not isinstance(source, EmptiesRecords):
        return [], set()
    files = read_ledger(context).files
    copies: dict[str, list[str]] = {}
    for path, copy in files.items():
        if copy.same_as is not None:
            copies.setdefault(copy.same_as, []).append(path)
    emptied: list[Emptied] = []
    clean: set[str] = set()
    for first, rows in _places(context):
        for path in (first, *copies.get(first, ())):
            file, known = context.pipeline.folder / path, files.get(path)
            if known is None or not file.is_file() or not _empty(source, file, rows, known):
                continue
            clean.add(path)
            seen = file.stat()
            if (known.size_bytes, known.modified_ns) != (seen.st_size, seen.st_mtime_ns):
                emptied.append(Emptied(path, seen.st_size, seen.st_mtime_ns, sha256_of(f"{file}")))
    return emptied, clean


def changed_lines(context: TableRun, emptied: Sequence[Emptied]) -> DataFrame:
    """Return the lines of the ledger of files that were emptied, as rows of bronze."""
    known = context.spark.createDataFrame([*emptied], _LINE)
    bronze = context.spark.table(quote(*context.bronze))
    lines = bronze.where(f"{r.KIND} = {literal(r.LEDGER_ROW)}").join(
        F.broadcast(known), F.col(r.FILE) == F.col(_NEW + "path")
    )
    line = F.col(r.LEDGER)
    for name in _CHANGED:
        line = line.withField(name, F.col(_NEW + name))
    return lines.select(*((line if name == r.LEDGER else F.col(quote(name))).alias(name) for name in bronze.columns))


def _places(context: TableRun) -> Iterator[tuple[str, list[int]]]:
    """Yield each file with rows of erased keys, and these rows."""
    stubs = f"SELECT {r.FILE}, {r.ROW} FROM {quote(*context.bronze)} WHERE {r.KIND} = {literal(r.ERASED)}"
    rows = context.spark.sql(f"SELECT {r.FILE}, {r.ROW} FROM {PLACES} UNION {stubs} ORDER BY 1, 2").toLocalIterator()
    for path, some in groupby(rows, key=lambda row: row[0]):
        yield path, [row[1] for row in some]


def _empty(source: EmptiesRecords, file: Path, rows: Sequence[int], known: KnownFile) -> bool:
    """Empty a file's records where any is left; return whether it is what bronze took but for them."""
    seen, is_done = file.stat(), source.is_emptied(file, rows)
    if is_done and (known.size_bytes, known.modified_ns) == (seen.st_size, seen.st_mtime_ns):
        return True
    if known.sha256 not in (sha256_of(f"{file}"), source.emptied_from(f"{file}")):
        return False
    if not is_done:
        source.empty(file, rows, known.sha256)
    return True
