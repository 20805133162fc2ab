"""Read loaded tables again, during a normal capture or after changes were missed.

The rows of a snapshot are landed as a truncate followed by every row, at the snapshot's place among the changes and at
one time. Rows that the snapshot lacks are thereby deleted, and changed rows get a version. A row that equals the lake's
changes nothing, because the last of several changes of a key at one time applies.

The steps have this order, so that a process may be killed between any two of them:

1. State, slot and files show what is lost. If the slot is lost, a new one is created unless a working one exists.
2. The rows are landed hidden, and compared with the landed keys, so that too many deletes are refused.
3. If the slot was lost, the state starts over without captured tables.
4. The rows appear table by table; then the state records that the changes of these tables are captured.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.errors import DeclarationError, SchemaError
from frazil.failpoints import failpoint
from frazil.sources.capture import Landed, verify_deletes
from frazil.sources.landed_files import forget_lost
from frazil.sources.postgres.database.rules import own_order
from frazil.sources.postgres.database.server import Server, exported_snapshot
from frazil.sources.postgres.errors import ServerError, ServerSetupError, SlotLostError
from frazil.sources.postgres.landed.landing import LOAD, RELOAD, RESTART, CaptureState, place_text
from frazil.sources.postgres.landed.load import ExportedSnapshot, RewrittenError, load_table, write_truncate
from frazil.sources.postgres.turn import MOST_LOADS, NOW, Turn, make_slot
from frazil.spec.model.kinds.postgres import BEHIND, OLD, OP, POSITION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from frazil.errors import FrazilError
    from frazil.sources.postgres.database.known import Known
    from frazil.sources.postgres.database.server import ServerTable


class Reload(Turn):
    """A turn that reads tables again."""

    def read(self, names: Collection[str], range_bytes: int) -> Landed:
        """Land the rows of some tables again; waits for a running capture.

        If no changes are missing, they are landed first, so that the rows they delete do not count as lost.

        Raises:
            SlotLostError: the slot misses changes of other tables too.
            ServerSetupError: a table was not captured yet.
            DeclarationError: the order of a table's deleted rows is unknown.
            TooManyDeletesError: a table lost too many rows.
        """
        chosen = {table.source.schema_and_name for table in self._declared if table.name in names}
        with Server(self._url) as self._server:
            if not self._server.lock(self._slot):
                self._progress("waits for the running capture")
                self._server.wait_for_lock(self._slot)
            state, broken = self._look()
            lost = self._lost(state, broken, chosen)
            is_slot_lost = any(error.places is None for error in lost)
            for error in lost:
                if (self._rules.loaded if error.places is None else error.places) - chosen:
                    raise error
            if not is_slot_lost and (state is None or chosen - self._rules.loaded):
                raise ServerSetupError(f"{self._where}: not captured yet", hint="frazil run reads all rows by itself")
            chosen &= self._rules.loaded
            self._verify_order(chosen)
            if not is_slot_lost:
                self._land(range_bytes)
                state = self._landing.state()
            if state is None or is_slot_lost:
                self._begin_anew(chosen, state)
            else:
                self._go_on(chosen, state, {place for error in lost for place in error.places or ()})
        return Landed(files=self._files, records=self._records)

    def _lost(
        self, state: CaptureState | None, broken: Sequence[FrazilError], chosen: Collection[tuple[str, str]]
    ) -> list[SlotLostError]:
        """Return the errors about missing changes; raise any other error."""
        rules = self._rules
        found = [*broken, *rules.published(state), *rules.slot(state)]
        # A renamed column is read again under its new name.
        found += [
            error for place, error in rules.stopped.items() if place in chosen and not isinstance(error, SchemaError)
        ]
        lost = []
        for error in found:
            if not isinstance(error, SlotLostError):
                raise error
            lost.append(error)
        return lost

    def _verify_order(self, places: Collection[tuple[str, str]]) -> None:
        for table in self._declared:
            own = own_order(table)
            if own and table.source.schema_and_name in places:
                folder = self._landing.table(*table.source.schema_and_name)
                raise DeclarationError(
                    f"table '{table.name}' takes order or times of its changes from column '{own}', which deleted "
                    "rows do not have: it cannot be read again into the existing tables",
                    hint=f"start over: frazil drop --select {table.name}; rm -r {folder}; frazil run",
                )

    def _go_on(self, places: Collection[tuple[str, str]], state: CaptureState, missed: set[tuple[str, str]]) -> None:
        """Land the rows of tables with a working slot; changes of the ``missed`` ones are captured from now on."""
        known = {*state.tables} - {".".join(place) for place in missed}
        if known != {*state.tables}:
            # After a table is added to the publication, its former absence is no longer visible.
            state = replace(state, tables=tuple(sorted(known)))
            self._landing.keep(state)
        tables = self._chosen(places)
        place = place_text(self._write(tables, state.era), state.era)
        for table in tables:
            self._show(table, f"{RESTART if table.place in missed else RELOAD}{place}")
        now = {table.full_name for table in tables}
        self._landing.keep(
            replace(
                state,
                tables=tuple(sorted(known | now)),
                known={**state.known, **self._known(tables)},
                stopped=tuple(name for name in state.stopped if name not in now),
            )
        )

    def _begin_anew(self, places: Collection[tuple[str, str]], known: CaptureState | None) -> None:
        """Begin an era with a working slot and the rows of all its tables, which contain the missed changes."""
        tables = self._chosen(places)
        era = max(self._landing.last_era(), known.era if known else 0) + 1
        if self._rules.is_slot_dead:
            self._server.rows("SELECT pg_drop_replication_slot(%s)::text", self._slot)
        if self._rules.is_slot_dead or self._rules.found_slot is None:
            make_slot(self._server, self._slot)
        failpoint("capture.reload_slot")
        position = self._write(tables, era)
        state = replace(self._new_state(position, era), known=self._known(tables))
        self._landing.keep(state)
        failpoint("capture.reload_named")
        for table in tables:
            self._show(table, f"{RESTART}{state.at(position)}")
        self._landing.keep(replace(state, tables=tuple(sorted(table.full_name for table in tables))))

    def _chosen(self, places: Collection[tuple[str, str]]) -> list[ServerTable]:
        """Return the tables as published; a table that left the publication is added again."""
        tables = self._published(None)
        for place in places:
            if place in self._rules.stopped:
                raise self._rules.stopped[place]
        return [tables[place] for place in sorted(places)]

    def _known(self, tables: Iterable[ServerTable]) -> dict[str, Known]:
        return {table.full_name: self._rules.now[table.place] for table in tables}

    def _write(self, tables: Sequence[ServerTable], era: int) -> int:
        """Land the rows of tables hidden, from one snapshot; return its position."""
        rows: dict[str, int] = {}
        for _ in range(MOST_LOADS):
            # Before the snapshot, so that later commits are not earlier in time.
            read_at = self._server.one(NOW)
            self._progress("waits for a snapshot: transactions that are open now end first")
            with exported_snapshot(self._url, f"{self._server.session.info.backend_pid}") as (lsn, name):
                place = place_text(lsn, era)
                snapshot = ExportedSnapshot(
                    url=self._url,
                    lsn=lsn,
                    name=name,
                    read_at=read_at,
                    domains=self._server.domains(),
                    position=f"{place}{BEHIND}",
                )
                try:
                    for table in tables:
                        self._landing.clear(*table.place)
                        folder = self._landing.new_load(*table.place)
                        write_truncate(table, folder, snapshot, place)
                        rows[table.full_name] = load_table(table, folder, snapshot, self._progress)
                except RewrittenError:
                    continue
            for table in tables:
                self._verify_deletes(table)
            self._records += sum(rows.values())
            failpoint("capture.reload_written")
            return lsn
        raise ServerError(
            f"{self._where}: one of the tables was emptied or rewritten during each of {MOST_LOADS} loads",
            hint="run again while the tables are not being rewritten",
        )

    def _verify_deletes(self, table: ServerTable) -> None:
        place = table.place
        named = {key.lower() for key in self._rules.keys[place]}
        keys = [column for column in table.columns if column.lower() in named]
        fresh = self._landing.unfinished_load(*place)
        known, gone = known_and_gone(self._landing.table(*place), fresh, keys or table.identity)
        limit = min(one.source.max_delete_fraction for one in self._declared if one.source.schema_and_name == place)
        verify_deletes(f"{self._where}: {table.full_name}", known, gone, limit)

    def _show(self, table: ServerTable, name: str) -> None:
        folder = self._landing.unfinished_load(*table.place)
        self._files += len([*folder.iterdir()])
        self._landing.show_load(folder, name)
        forget_lost(folder.parent)
        failpoint("capture.reload_shown")


_MEMORY: Final = "1GB"


def known_and_gone(landed: Path, fresh: Path, keys: Sequence[str]) -> tuple[int, int]:
    """Return the number of rows after all landed changes, and how many of them a snapshot lacks.

    Args:
        landed: folder of the table's landing files. Removed files are ignored.
        fresh: hidden folder with the rows of the snapshot.
        keys: key columns, as the server writes them.

    Cost: reads the keys of all landing files of the table once; at most 1 GB of memory, then it spills to disk.
    """
    files = _in_order(landed, fresh)
    emptied = max((_emptied_at(file) for file in files), default="")
    schema = pa.schema([("number", pa.int64()), *((f"c{place}", pa.string()) for place in range(len(keys)))])
    with _database() as database:
        _load(database, "ends", _ends(files, keys, emptied, schema), schema)
        _load(database, "fresh", _ends([*fresh.glob("*.parquet")], keys, "", schema), schema)
        names = ", ".join(f"c{place}" for place in range(len(keys)))
        same = " AND ".join(f"n.c{place} = o.c{place}" for place in range(len(keys)))
        found = database.execute(f"""
            SELECT count(*), count(*) FILTER (NOT EXISTS (SELECT 1 FROM fresh AS n WHERE {same}))
            FROM (SELECT {names} FROM ends GROUP BY ALL HAVING max(number) % 2 = 1) AS o""").fetchone()
    known, gone = found
    return known, gone


@contextmanager
def _database() -> Iterator[Any]:
    with tempfile.TemporaryDirectory(prefix="frazil-") as scratch:
        settings: dict[str, Any] = {"memory_limit": _MEMORY, "temp_directory": scratch}
        with duckdb.connect(f"{scratch}/keys.duckdb", config=settings) as database:
            yield database


def _load(database: Any, name: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
    database.register("frazil_rows", pa.RecordBatchReader.from_batches(schema, batches))
    database.execute(f"CREATE TABLE {name} AS FROM frazil_rows")
    database.unregister("frazil_rows")


def _in_order(landed: Path, fresh: Path) -> list[Path]:
    """Return the landing files of a table: files of rows first, then files of changes."""
    files = [file for file in landed.rglob("*.parquet") if file.parent != fresh]
    ranges = [file for file in files if file.parent == landed]
    rows = [file for file in files if file.parent.name.startswith((LOAD, RELOAD, RESTART))]
    return [*sorted(rows), *sorted(ranges)]


def _emptied_at(file: Path) -> str:
    """Return the position of the last truncate in a file; empty without a truncate."""
    truncates = (
        batch.column(POSITION).filter(pc.equal(batch.column(OP), "t")) for batch in _batches(file, [OP, POSITION])
    )
    return max((pc.max(places).as_py() for places in truncates if len(places)), default="")


def _ends(files: Sequence[Path], keys: Sequence[str], emptied: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield (number, key) for each change since a truncate. Numbers grow; an odd number means that the row exists.

    A change of key yields two keys.
    """
    old = [f"{OLD}{key}" for key in keys]
    number = 0
    for file in files:
        for batch in _batches(file, [OP, POSITION, *keys, *old]):
            numbers = pa.array(range(number, number + 2 * batch.num_rows, 2), pa.int64())
            number += 2 * batch.num_rows
            is_newer = pc.greater_equal(pc.fill_null(batch.column(POSITION), ""), emptied)
            is_there = pc.is_in(batch.column(OP), pa.array(["r", "i", "u"]))
            new = [batch.column(key) for key in keys]
            yield _rows([pc.add(numbers, pc.cast(is_there, pa.int64())), *new], is_newer, schema)
            yield _rows([numbers, *(batch.column(name) for name in old)], is_newer, schema)


def _rows(columns: list[Any], is_newer: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows that are newer than the truncate and have a key."""
    for column in columns:
        is_newer = pc.and_(is_newer, pc.is_valid(column))
    return pa.RecordBatch.from_arrays(columns, schema=schema).filter(is_newer)


def _batches(file: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a file; missing columns are NULL."""
    with pq.ParquetFile(file) as opened:
        here = [name for name in names if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(columns=here):
            columns = [batch.column(name) if name in here else pa.nulls(batch.num_rows, pa.string()) for name in names]
            yield pa.RecordBatch.from_arrays(columns, names=[*names])
