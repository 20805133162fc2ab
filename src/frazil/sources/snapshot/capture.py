"""Compare dumps, and land what differs as changes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import HistoryChangedError, SourceError
from frazil.sources.capture import Landed, Looked, land_file
from frazil.sources.deletes import verify_deletes
from frazil.sources.snapshot.dumps import Dump, DumpReader, dumps_of, landing_folder
from frazil.sources.snapshot.source import AFTER
from frazil.spec.amount import counted
from frazil.spec.kinds.snapshot import OP, SNAPSHOT, TAKEN_AT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from frazil.spec import Pipeline, Table

_ROWS_AT_ONCE: Final = 65_536
_MEMORY: Final = "1GB"


class DumpGoneError(HistoryChangedError):
    """A dump that another is to be compared with is no longer there."""

    code = "FZ720"


class BadKeyError(SourceError):
    """Rows of a dump cannot be told apart by the keys."""

    code = "FZ221"
    retryable = False


@dataclass(frozen=True, slots=True)
class SnapshotCapture:
    """The dumps of one table; each is compared with the one before, once."""

    table: Table

    @property
    def name(self) -> str:
        """Return where the dumps are."""
        return f"dumps of {self.table.source.path}"

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the table."""
        return (self.table.name,)

    def land(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land what differs between each new dump and its neighbours.

        A dump that arrives between two others is compared with the one before, and the one behind with it.

        Raises:
            MissingFolderError: the folder of the dumps is missing.
            UnreadableDumpError, BadKeyError: a dump has records that cannot be read or told apart.
            TooManyDeletesError: a dump lacks too many rows.
            DumpGoneError: the dump before a new one was taken away.

        Cost: reads each new dump and its neighbours once; memory of DuckDB, at most 1 GB, beyond that it spills.
        """
        place = landing_folder(self.table, folder)
        landed = _landed(place)
        dumps = dumps_of(self.table, folder)
        files = records = 0
        for before, dump in pairwise((None, *dumps)):
            assert dump is not None  # noqa: S101 - only the first of the pairs has a None, and before
            since = "" if before is None else before.name
            # Compared with a dump nearer than this one, which may be gone by now.
            if any(name == dump.name and (other or "") >= since for name, other in landed):
                continue
            self._verify_neighbour(dump, before, landed)
            progress(f"compare {dump.name}")
            count = self._compare(dump, before, folder)
            landed.add((dump.name, since or None))
            files, records = files + 1, records + count
        return Landed(files=files, records=records)

    def behind(self, folder: Path) -> None:
        """Return that nothing is known before dumps are compared."""
        del folder

    def examine(self, folder: Path) -> Iterator[Looked]:
        """Yield nothing: there is no server."""
        del folder
        yield from ()

    def _verify_neighbour(self, dump: Dump, before: Dump | None, landed: set[tuple[str, str | None]]) -> None:
        """Stop if a dump that lies between two others was landed and is gone: keys that only it had would stay."""
        since = "" if before is None else before.name
        between = sorted(name for name, _ in landed if since < name < dump.name)
        if between:
            raise DumpGoneError(
                f"table {self.table.name!r}: dump {between[-1]} was taken and is gone, so {dump.name} cannot be "
                "compared with it",
                hint="keep the newest dump until the next has been taken; put it back, or begin again: "
                f"frazil drop --select {self.table.name}, and remove {self.table.source.landing}/{self.table.name}",
            )

    def _compare(self, dump: Dump, before: Dump | None, folder: Path) -> int:
        with tempfile.TemporaryDirectory(prefix="frazil-dumps-") as scratch:
            database = duckdb.connect(
                f"{scratch}/dumps.duckdb", config={"memory_limit": _MEMORY, "temp_directory": scratch}
            )
            try:
                return self._land_difference(database, dump, before, folder)
            finally:
                database.close()

    def _land_difference(self, database: Any, dump: Dump, before: Dump | None, folder: Path) -> int:
        new = DumpReader(dump, self.table, folder)
        old = None if before is None else DumpReader(before, self.table, folder)
        keys = self._keys(new, dump)
        names = [*keys, *(name for name in new.columns if name.lower() not in {key.lower() for key in keys})]
        schema = pa.schema([(f"c{number}", pa.string()) for number in range(len(names))])
        _load(database, "new_rows", new, names, schema)
        self._verify_keys(database, dump, len(keys))
        if old is None:
            database.execute("CREATE TABLE old_rows AS FROM new_rows LIMIT 0")
        else:
            _load(database, "old_rows", old, names, schema)
        common = None if old is None else {name.lower() for name in old.columns}
        self._verify_deletes(database, dump, len(keys))
        has = [number for number, name in enumerate(names) if common is None or name.lower() in common]
        found = database.execute(_difference(len(names), len(keys), has)).to_arrow_reader(_ROWS_AT_ONCE)
        pair = f"{dump.name}{AFTER}{'' if before is None else before.name}"
        count = 0

        def write(path: Path) -> None:
            nonlocal count
            fields = [(OP, pa.string()), *((name, pa.string()) for name in names)]
            fields += [(SNAPSHOT, pa.string()), (TAKEN_AT, pa.string())]
            # Two pairs of dumps may differ alike, and the same bytes under two names would be taken once.
            target = pa.schema(fields, metadata={"frazil.dumps": pair})
            with pq.ParquetWriter(path, target, compression="zstd") as writer:
                for batch in found:
                    constants = [
                        pa.repeat(pa.scalar(text, pa.string()), batch.num_rows) for text in (dump.name, dump.taken_at)
                    ]
                    columns = [column.cast(pa.string()) for column in batch.columns]
                    writer.write_batch(pa.RecordBatch.from_arrays([*columns, *constants], schema=target))
                    count += batch.num_rows

        land_file(landing_folder(self.table, folder) / f"{pair}.parquet", write)
        return count

    def _keys(self, new: DumpReader, dump: Dump) -> list[str]:
        here = {name.lower(): name for name in new.columns}
        missing = [key for key in self.table.keys if key.lower() not in here]
        if missing:
            raise BadKeyError(
                f"table {self.table.name!r}: dump {dump.name} has no field {missing[0]!r}, which is a key",
                hint=f"it has {', '.join(new.columns)}; keys of dumps are fields, not columns with an expr",
            )
        return [here[key.lower()] for key in self.table.keys]

    def _verify_keys(self, database: Any, dump: Dump, keys: int) -> None:
        names = ", ".join(f"c{number}" for number in range(keys))
        is_null = " OR ".join(f"c{number} IS NULL" for number in range(keys))
        found = database.execute(
            f"SELECT {names}, count(*) FROM new_rows GROUP BY ALL HAVING count(*) > 1 OR {is_null} LIMIT 1"
        ).fetchone()
        if found is not None:
            key = ", ".join(f"{name} = {value!r}" for name, value in zip(self.table.keys, found[:-1], strict=True))
            raise BadKeyError(
                f"table {self.table.name!r}: dump {dump.name} has {counted(found[-1], 'row')} with {key}",
                hint="each row of a dump needs a key of its own; mend the dump or the keys, and run again",
            )

    def _verify_deletes(self, database: Any, dump: Dump, keys: int) -> None:
        same = _same("o", "n", keys)
        (before,) = database.execute("SELECT count(*) FROM old_rows").fetchone()
        (gone,) = database.execute(
            f"SELECT count(*) FROM old_rows AS o WHERE NOT EXISTS (SELECT 1 FROM new_rows AS n WHERE {same})"
        ).fetchone()
        copy = f"table {self.table.name!r}: dump {dump.name}"
        verify_deletes(copy, before, gone, self.table.source.max_delete_fraction)


def captures(pipeline: Pipeline, tables: Sequence[Table]) -> list[SnapshotCapture]:
    """Return what compares the dumps of each table."""
    del pipeline
    return [SnapshotCapture(table) for table in tables]


def _landed(place: Path) -> set[tuple[str, str | None]]:
    """Return the pairs of dumps whose differences are landed."""
    found = set()
    for file in place.glob(f"*{AFTER}*.parquet"):
        dump, _, before = file.name.removesuffix(".parquet").partition(AFTER)
        found.add((dump, before or None))
    return found


def _load(database: Any, name: str, reader: DumpReader, names: Sequence[str], schema: Any) -> None:
    rows = pa.RecordBatchReader.from_batches(schema, reader.batches(names, schema))
    database.register("frazil_rows", rows)
    database.execute(f"CREATE TABLE {name} AS FROM frazil_rows")
    database.unregister("frazil_rows")
    if reader.unreadable is not None:
        raise reader.unreadable


def _same(one: str, other: str, keys: int) -> str:
    return " AND ".join(f"{one}.c{number} = {other}.c{number}" for number in range(keys))


def _difference(columns: int, keys: int, has: Sequence[int]) -> str:
    """Write the SELECT of op and columns; ``has`` are the places of the columns that the dump before has too."""
    same = _same("n", "o", keys)
    new = ", ".join(f"n.c{number}" for number in range(columns))
    old = ", ".join(f"o.c{number}" for number in range(columns))
    added = [f"n.c{number} IS NOT NULL" for number in range(columns) if number not in has]
    differs = " OR ".join(
        ["false", *(f"n.c{number} IS DISTINCT FROM o.c{number}" for number in has if number >= keys), *added]
    )
    return f"""SELECT CASE WHEN o.c0 IS NULL THEN 'i' ELSE 'u' END AS op, {new}
        FROM new_rows AS n LEFT JOIN old_rows AS o ON {same} WHERE o.c0 IS NULL OR {differs}
        UNION ALL SELECT 'd', {old} FROM old_rows AS o
        WHERE NOT EXISTS (SELECT 1 FROM new_rows AS n WHERE {same})"""
