"""Compare dumps and land the differences as changes."""

from __future__ import annotations

import glob
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import ContractError, SourceError
from frazil.failpoints import failpoint
from frazil.sources.capture import TYPE_KEY, Landed, Looked, land_file, try_lock, verify_deletes
from frazil.sources.landed_files import note_landed
from frazil.sources.postgres.errors import require_driver
from frazil.sources.snapshot.keys import KeyType, folds_of
from frazil.sources.snapshot.source import (
    AFTER,
    Dump,
    DumpGoneError,
    DumpReader,
    all_dumps,
    dumps_folder,
    dumps_of,
    landing_folder,
)
from frazil.sources.snapshot.taken import CONTENT, content_of, verify_content, verify_order
from frazil.spec.amount import counted
from frazil.spec.model.kinds.snapshot import OP, SNAPSHOT, TAKEN_AT
from frazil.spec.secrets import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from frazil.sources.comparison import SourceRows
    from frazil.spec import Pipeline, Table

ROWS_AT_ONCE: Final = 65_536
MEMORY: Final = "1GB"


class BadKeyError(SourceError):
    """The keys do not identify the rows of a dump."""

    code = "FZ221"
    retryable = False


class TakenNameError(SourceError):
    """A field of a dump has a name that Frazil uses in files of differences."""

    code = "FZ222"
    retryable = False


@dataclass(frozen=True, slots=True)
class SnapshotCapture:
    """The capture of one table's dumps; each dump is compared once with the one before it."""

    table: Table

    @property
    def name(self) -> str:
        """Return the place of the dumps, without secrets."""
        source = self.table.source
        if source.path is not None:
            return f"dumps of {source.path}"
        return f"dumps of {'.'.join(source.schema_and_table)} of {redacted(source.url)}"

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the name of the table."""
        return (self.table.name,)

    def land(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land the differences between each new dump and its neighbours; with a database, take a dump first.

        A dump that arrives between two others is compared with the one before, and the one after is compared with it.

        Raises:
            MissingFolderError: the folder of the dumps does not exist.
            UnreadableDumpError: a dump has unreadable records.
            BadKeyError: the keys do not identify the rows of a dump.
            TakenNameError: a dump has a field with a name that Frazil uses.
            TooManyDeletesError: a dump lacks too many rows.
            DumpGoneError: the dump before a new one was removed.
            DumpChangedError: a dump has other content than when it was taken.
            NameOrderError: the names of the dumps are in another order than the times in them.
            ServerError, ServerSetupError: the database does not answer, or lacks the table.

        Cost: reads each new dump and its neighbours once; at most 1 GB of memory, then it spills to disk. Of the dumps
        taken from a database, only the newest is kept.
        """
        if self.table.source.path is not None:
            return self.land_new(folder, progress)
        require_driver()
        from frazil.sources.snapshot.database import is_due, keep_dump, take_dump  # noqa: PLC0415 - needs the driver

        with try_lock(dumps_folder(self.table, folder) / ".lock") as is_alone:
            if not is_alone:
                return Landed(busy="another process of Frazil")
            dumps = all_dumps(self.table, folder)
            if is_due(self.table, dumps):
                take_dump(self.table, folder, dumps, progress)
            landed: Landed | None = None
            try:
                landed = self.land_new(folder, progress)
                failpoint("dump.landed")
            finally:
                # Refused dumps are removed too: they would be refused every time, and a new one can be taken.
                keep_dump(self.table, folder, self.landed_names(folder), is_level=landed is not None)
            return landed

    def landed_names(self, folder: Path) -> set[str]:
        """Return the names of dumps with landed differences."""
        return {name for name, _ in _landed(landing_folder(self.table, folder))}

    def land_new(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land the differences between each new dump and its neighbours."""
        place = landing_folder(self.table, folder)
        landed = _landed(place)
        dumps = dumps_of(self.table, folder)
        if self.table.source.path is not None:
            verify_order(self.table.name, dumps)
            for one in dumps:
                verify_content(self.table.name, one, place.glob(f"{glob.escape(one.name)}{AFTER}*.parquet"))
        files = records = 0
        for before, dump in pairwise((None, *dumps)):
            assert dump is not None  # noqa: S101 - only the first of the pairs has a None, and before
            since = "" if before is None else before.name
            # It was compared with a nearer dump, which may be gone by now.
            if any(name == dump.name and (other or "") >= since for name, other in landed):
                continue
            self._verify_neighbour(dump, before, landed)
            progress(f"compare {dump.name}")
            count = self._compare(dump, before, folder)
            if count is None:
                continue
            landed.add((dump.name, since or None))
            files, records = files + 1, records + count
        return Landed(files=files, records=records)

    def behind(self, folder: Path) -> None:
        """Return None: the distance is unknown before dumps are compared."""
        del folder

    def examine(self, folder: Path) -> Iterator[Looked]:
        """Check that the table can be dumped; yields nothing without a server."""
        if self.table.source.path is None:
            require_driver()
            from frazil.sources.snapshot.database import examine_table  # noqa: PLC0415 - needs the driver

            yield from examine_table(self.table, folder)

    def preview(self, folder: Path, into: Path) -> None:
        """Land the differences between the newest dump and the current database in another landing folder."""
        from frazil.sources.snapshot.database import dump_of_now  # noqa: PLC0415 - needs the driver

        dumps = all_dumps(self.table, folder)
        elsewhere = self.table.model_copy(update={"source": self.table.source.landed_in(f"{into}")})
        with dump_of_now(self.table, folder, lambda _: None) as now:
            SnapshotCapture(elsewhere)._compare(now, dumps[-1] if dumps else None, folder)  # noqa: SLF001 - its own

    def _verify_neighbour(self, dump: Dump, before: Dump | None, landed: set[tuple[str, str | None]]) -> None:
        """Refuse a dump if a landed one between it and ``before`` is gone, because keys only in that one would stay."""
        since = "" if before is None else before.name
        between = sorted(name for name, _ in landed if since < name < dump.name)
        if between:
            raise DumpGoneError(
                f"table {self.table.name!r}: dump {between[-1]} was taken and is gone, so {dump.name} cannot be "
                "compared with it",
                hint="keep the newest dump until the next has been taken; put it back, or start over: "
                f"frazil drop --select {self.table.name}, and remove {self.table.source.landing}/{self.table.name}",
            )

    def _compare(self, dump: Dump, before: Dump | None, folder: Path) -> int | None:
        """Land the differences; return the number of records, or None if an equal dump needs no file."""
        with tempfile.TemporaryDirectory(prefix="frazil-dumps-") as scratch:
            database = open_scratch(scratch)
            try:
                return self._land_difference(database, dump, before, folder)
            finally:
                database.close()

    def _land_difference(self, database: Any, dump: Dump, before: Dump | None, folder: Path) -> int | None:
        new = DumpReader(dump, self.table, folder)
        old = None if before is None else DumpReader(before, self.table, folder)
        self._verify_names(new, dump)
        keys = self._keys(new.columns, dump)
        columns = [*new.columns, *_omitted(new, old)]
        names = [*keys, *(name for name in columns if name.lower() not in {key.lower() for key in keys})]
        kinds = self._key_types(keys, new.types)
        load_rows(database, "new_rows", new, names, kinds)
        self._verify_keys(database, dump, kinds)
        if old is None:
            database.execute("CREATE TABLE old_rows AS FROM new_rows LIMIT 0")
        else:
            load_rows(database, "old_rows", old, names, kinds)
        common = None if old is None else {name.lower() for name in (*old.columns, *_omitted(old, new))}
        self._verify_deletes(database, dump, len(keys))
        has = [number for number, name in enumerate(names) if common is None or name.lower() in common]
        batches = _differences(database, len(names), len(keys), has)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None and self.table.source.path is None and old is not None and old.types == new.types:
            return None
        pair = f"{dump.name}{AFTER}{'' if before is None else before.name}"
        count = 0

        def write(path: Path) -> None:
            nonlocal count
            # Two pairs of dumps may have equal differences, and equal bytes would count as a duplicate.
            target = pa.schema(
                _fields(names, new.types), metadata={"frazil.dumps": pair, CONTENT: content_of(new.files)}
            )
            with pq.ParquetWriter(path, target, compression="zstd") as writer:
                for batch in chain([first] if first else [], batches):
                    constants = [
                        pa.repeat(pa.scalar(text, pa.string()), batch.num_rows) for text in (dump.name, dump.taken_at)
                    ]
                    columns = [column.cast(pa.string()) for column in batch.columns]
                    writer.write_batch(pa.RecordBatch.from_arrays([*columns, *constants], schema=target))
                    count += batch.num_rows

        place = landing_folder(self.table, folder)
        land_file(place / f"{pair}.parquet", write)
        note_landed(place, [f"{pair}.parquet"])
        return count

    def _verify_names(self, new: DumpReader, dump: Dump) -> None:
        taken = [name for name in new.columns if name.lower() in {OP, SNAPSHOT, TAKEN_AT}]
        if taken:
            raise TakenNameError(
                f"table {self.table.name!r}: dump {dump.name} has a field {taken[0]!r}, and differences between dumps "
                "have one of that name",
                hint="rename it at the source, or leave it out: a view can",
            )

    def _keys(self, columns: Sequence[str], dump: Dump) -> list[str]:
        here = {name.lower(): name for name in columns}
        missing = [key for key in self.table.keys if key.lower() not in here]
        if missing:
            raise BadKeyError(
                f"table {self.table.name!r}: dump {dump.name} has no field {missing[0]!r}, which is a key",
                hint=f"it has {', '.join(columns)}; keys of dumps are fields, not columns with an expr"
                if columns
                else "it has no fields at all: remove the empty file, or deliver it with its header",
            )
        return [here[key.lower()] for key in self.table.keys]

    def _key_types(self, keys: Sequence[str], types: Mapping[str, str]) -> list[KeyType]:
        """Return the types of the keys in the lake, because ``1.5`` and ``1.50`` are one decimal.

        Args:
            keys: key fields of a dump.
            types: lower-case name of a field -> its type, where dumps have types.
        """
        declared = {column.name.lower(): column for column in self.table.columns or ()}
        kinds = []
        for key in (name.lower() for name in keys):
            column = declared.get(key)
            if column is not None and column.expr:
                kinds.append(KeyType("string", folds_of(column.expr, key)))
            else:
                kinds.append(KeyType(types.get(key, "string") if column is None else column.type))
        return kinds

    def _verify_keys(self, database: Any, dump: Dump, kinds: Sequence[KeyType]) -> None:
        keys = len(kinds)
        names = ", ".join(f"any_value(c{number})" for number in range(keys))
        has_none = " OR ".join(f"k{number} IS NULL" for number in range(keys))
        values = ", ".join(f"k{number}" for number in range(keys))
        found = database.execute(
            f"SELECT {names}, count(*) FROM new_rows GROUP BY {values} HAVING count(*) > 1 OR {has_none} "
            f"ORDER BY {has_none} DESC LIMIT 1"
        ).fetchone()
        if found is not None:
            key = ", ".join(f"{name} = {value!r}" for name, value in zip(self.table.keys, found[:-1], strict=True))
            self._verify_key_texts(database, dump, kinds)
            raise BadKeyError(
                f"table {self.table.name!r}: dump {dump.name} has {counted(found[-1], 'row')} with {key}",
                hint="each row of a dump needs a key of its own; fix the dump or the keys, and run again",
            )

    def _verify_key_texts(self, database: Any, dump: Dump, kinds: Sequence[KeyType]) -> None:
        """Refuse a key that is no value of its type: the row would look deleted."""
        for number, (name, kind) in enumerate(zip(self.table.keys, kinds, strict=True)):
            found = database.execute(
                f"SELECT c{number} FROM new_rows WHERE k{number} IS NULL AND c{number} IS NOT NULL LIMIT 1"
            ).fetchone()
            if found is not None:
                raise BadKeyError(
                    f"table {self.table.name!r}: dump {dump.name} has a row with {name} = {found[0]!r}, "
                    f"which is not exactly {kind.type}",
                    hint=f"without it the row would look deleted; fix the dump, or give the column {name} a type that "
                    "all its values have, such as decimal(38,10) or string",
                )

    def _verify_deletes(self, database: Any, dump: Dump, keys: int) -> None:
        (before,) = database.execute("SELECT count(*) FROM old_rows").fetchone()
        (gone,) = database.execute(f"SELECT count(*) FROM {_gone(keys)}").fetchone()
        copy = f"table {self.table.name!r}: dump {dump.name}"
        verify_deletes(copy, before, gone, self.table.source.max_delete_fraction)


@contextmanager
def dumped_rows(pipeline: Pipeline, table: Table) -> Iterator[SourceRows]:
    """Open the current rows of the dumped table."""
    require_driver()
    from frazil.sources.snapshot.database import database_rows  # noqa: PLC0415 - needs the driver

    def find_uncaptured(into: Path, _: int) -> str | None:
        try:
            SnapshotCapture(table).preview(pipeline.folder, into)
        except (SourceError, ContractError) as error:
            # A run would refuse this too; the comparison of the rows continues.
            return error.message
        return None

    with database_rows(pipeline, table, find_uncaptured) as rows:
        yield rows


def snapshot_captures(pipeline: Pipeline, tables: Sequence[Table]) -> list[SnapshotCapture]:
    """Return one capture for each table."""
    del pipeline
    return [SnapshotCapture(table) for table in tables]


def _landed(place: Path) -> set[tuple[str, str | None]]:
    """Return (dump, dump before it or None) of all landed differences."""
    found = set()
    for file in place.glob(f"*{AFTER}*.parquet"):
        dump, _, before = file.name.removesuffix(".parquet").partition(AFTER)
        found.add((dump, before or None))
    return found


def _fields(names: Sequence[str], types: Mapping[str, str]) -> list[Any]:
    """Return the fields of a file of differences, with their types in the metadata if ``types`` is not empty."""
    kinds = {OP: "string", SNAPSHOT: "string", TAKEN_AT: "timestamp"}
    return [
        pa.field(name, pa.string(), metadata={TYPE_KEY: kinds.get(name) or types[name.lower()]} if types else None)
        for name in (OP, *names, SNAPSHOT, TAKEN_AT)
    ]


def open_scratch(folder: str) -> Any:
    """Open a database in a temporary folder, with little memory, in UTC."""
    database = duckdb.connect(f"{folder}/rows.duckdb", config={"memory_limit": MEMORY, "temp_directory": folder})
    database.execute("SET TimeZone = 'UTC'")
    return database


def load_rows(database: Any, name: str, reader: Any, names: Sequence[str], kinds: Sequence[KeyType]) -> None:
    """Load the rows of a dump into a table of DuckDB: the texts ``c0``, ``c1``, … and the values of keys ``k0``, ….

    Args:
        database: connection to DuckDB.
        name: name of the new table.
        reader: reader of the dump.
        names: fields to load, keys first.
        kinds: types of the keys.

    Raises:
        UnreadableDumpError: a record cannot be read.
    """
    schema = pa.schema([(f"c{number}", pa.string()) for number in range(len(names))])
    rows = pa.RecordBatchReader.from_batches(schema, reader.batches(names, schema))
    database.register("frazil_rows", rows)
    values = ", ".join(f"{kind.value(f'c{number}')} AS k{number}" for number, kind in enumerate(kinds))
    database.execute(f"CREATE TABLE {name} AS SELECT *, {values} FROM frazil_rows")
    database.unregister("frazil_rows")
    if reader.unreadable is not None:
        raise reader.unreadable


def loaded_texts(database: Any, name: str, columns: int) -> Any:
    """Return a reader of the texts of loaded rows."""
    texts = ", ".join(f"c{number}" for number in range(columns))
    return database.execute(f"SELECT {texts} FROM {name}").to_arrow_reader(ROWS_AT_ONCE)


def _omitted(reader: DumpReader, other: DumpReader | None) -> list[str]:
    """Return the fields of another dump that one of JSON lines lacks: a field that JSON leaves out is NULL."""
    if other is None or not reader.omits_nulls:
        return []
    own = {name.lower() for name in reader.columns}
    return [name for name in other.columns if name.lower() not in own]


def _same(one: str, other: str, keys: int) -> str:
    return " AND ".join(f"{one}.k{number} = {other}.k{number}" for number in range(keys))


def _gone(keys: int) -> str:
    """Write the FROM of rows that the new dump lacks; a row without a key of its type never came into the lake."""
    has_key = " AND ".join(f"o.k{number} IS NOT NULL" for number in range(keys))
    return f"old_rows AS o WHERE {has_key} AND NOT EXISTS (SELECT 1 FROM new_rows AS n WHERE {_same('o', 'n', keys)})"


def _differences(database: Any, columns: int, keys: int, has: Sequence[int]) -> Iterator[Any]:
    """Yield batches of op and columns; ``has`` are the indexes of columns that the dump before has too.

    If the dump before lacks a column, each row is an upsert: the lake may have values of it from a dump before that.
    Deletes are first: records of one dump are ordered by their rows, and a key with an expr may be that of a row that
    has come.
    """
    same = _same("n", "o", keys)
    new = ", ".join(f"n.c{number}" for number in range(columns))
    old = ", ".join(f"o.c{number}" for number in range(columns))
    is_any = "true" if len(has) < columns else "false"
    differs = " OR ".join([is_any, *(f"n.c{number} IS DISTINCT FROM o.c{number}" for number in has if number >= keys)])
    gone = f"SELECT 'd' AS op, {old} FROM {_gone(keys)}"
    come = f"""SELECT CASE WHEN o.c0 IS NULL THEN 'i' ELSE 'u' END AS op, {new}
        FROM new_rows AS n LEFT JOIN old_rows AS o ON {same} WHERE o.c0 IS NULL OR {differs}"""
    for rows in (gone, come):
        yield from database.execute(rows).to_arrow_reader(ROWS_AT_ONCE)
