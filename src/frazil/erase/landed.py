"""Rewrite and remove landing files that Frazil itself wrote."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.erase.job import PLACES
from frazil.runner.batch.emptied import Emptying, to_empty
from frazil.sources.capture import EmptiesRecords, ForgetsFiles
from frazil.sources.kinds import captures_of, source_of
from frazil.spec.sql.names import literal, quote
from frazil.spec.sql.select import source_table
from frazil.spec.tables import source_tables
from frazil.storage.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun

_CHANGED: Final = ("size_bytes", "modified_ns", "sha256")
_NEW: Final = "_cdc_new_"
_LINE: Final = f"{_NEW}path string, {_NEW}size_bytes long, {_NEW}modified_ns long, {_NEW}sha256 string"


class Emptied(NamedTuple):
    """New ledger values of a landing file without the erased records."""

    path: str
    size_bytes: int
    modified_ns: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFiles:
    """What an erase does to the landing files that Frazil wrote: see :func:`landed_files`.

    Attributes:
        rewritten: paths of files that keep only the places of the subjects' records.
        removed: paths of files to remove.
    """

    rewritten: tuple[str, ...]
    removed: tuple[str, ...]
    _emptying: tuple[Emptying, ...]
    _forgetting: tuple[tuple[ForgetsFiles, dict[Path, str]], ...]

    def rewrite(self) -> list[Emptied]:
        """Rewrite files; return the new ledger values of the changed ones.

        Until the ledger has the new values, a run recognizes the file by the old hash that is written in it.
        """
        emptied = []
        for one in self._emptying:
            if one.rows:
                one.source.empty(one.file, one.rows, one.known.sha256)
            if not one.is_level:
                seen = one.file.stat()
                emptied.append(Emptied(one.path, seen.st_size, seen.st_mtime_ns, sha256_of(f"{one.file}")))
        return emptied

    def remove(self, folder: Path) -> tuple[str, ...]:
        """Remove files and return the removed ones. The files of a capture stay while another process runs it."""
        gone = {names[file] for one, names in self._forgetting for file in one.forget(folder, [*names])}
        return tuple(path for path in self.removed if path in gone)


def landed_files(context: TableRun, holding: Sequence[str]) -> LandedFiles:
    """Return what an erase does to the landing files that Frazil wrote, without changing anything.

    A source that can empty records keeps its files: the erase removes the subjects' records, keeps their places and all
    other records. This includes records that arrived after their key was erased. A file that has changed since bronze
    read it stays as it is. Other sources lose the whole file, once every table made from it has read it and its capture
    no longer needs it.

    Args:
        context: the table's part of the run.
        holding: paths of all files with records of the subjects.

    Cost: one pass over each file that still has such a record; one column of each file that had one before.
    """
    source = source_of(context.table)
    emptying = tuple(to_empty(context, source, _places(context))) if isinstance(source, EmptiesRecords) else ()
    forgetting = tuple(_to_forget(context, holding))
    held = {*holding}
    return LandedFiles(
        rewritten=tuple(sorted(one.path for one in emptying if one.path in held or one.rows or not one.is_level)),
        removed=tuple(sorted({path for _, names in forgetting for path in names.values()})),
        _emptying=emptying,
        _forgetting=forgetting,
    )


def _to_forget(context: TableRun, holding: Sequence[str]) -> Iterator[tuple[ForgetsFiles, dict[Path, str]]]:
    folder, table = context.pipeline.folder, context.table.name
    paths = {folder / path: path for path in holding}
    for capture in captures_of(context.pipeline, (table,)):
        if not isinstance(capture, ForgetsFiles):
            continue
        found = capture.forgettable(folder, [*paths])
        names = {name for some in found.values() for name in some}
        taken = {name: _taken(context, name, [paths[file] for file in found]) for name in names}
        free = {file: paths[file] for file, names in found.items() if all(paths[file] in taken[name] for name in names)}
        yield capture, free


def _taken(context: TableRun, name: str, paths: Collection[str]) -> set[str]:
    """Return the files that a table's bronze has read."""
    spark, bronze = context.spark, source_tables(context.pipeline, source_table(context.pipeline, name)).bronze.path
    if not spark.catalog.tableExists(quote(*bronze)):
        return set()
    asked = spark.createDataFrame([(path,) for path in paths], f"{r.FILE} string")
    lines = spark.table(quote(*bronze)).where(f"{r.KIND} = {literal(r.LEDGER_ROW)}").select(r.FILE)
    return {row[0] for row in lines.join(F.broadcast(asked), r.FILE, "left_semi").distinct().collect()}


def changed_lines(context: TableRun, emptied: Sequence[Emptied]) -> DataFrame:
    """Return the ledger rows of emptied files with their new values, as rows of bronze."""
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
    """Yield each file that has rows of erased keys, with these rows."""
    stubs = f"SELECT {r.FILE}, {r.ROW} FROM {quote(*context.bronze)} WHERE {r.KIND} = {literal(r.ERASED)}"
    rows = context.spark.sql(f"SELECT {r.FILE}, {r.ROW} FROM {PLACES} UNION {stubs} ORDER BY 1, 2").toLocalIterator()
    for path, some in groupby(rows, key=lambda row: row[0]):
        yield path, [row[1] for row in some]
