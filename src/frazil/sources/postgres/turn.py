"""One turn of a capture; :mod:`frazil.sources.postgres.capture` says in which order things are done, and why."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from frazil.failpoints import failpoint
from frazil.sources.capture import Lag, Landed
from frazil.sources.postgres.errors import ServerError, ServerSetupError, SlotLostError
from frazil.sources.postgres.files import RangeFiles, TableRange, check_columns
from frazil.sources.postgres.landing import State, lsn_of
from frazil.sources.postgres.load import RewrittenError, Snapshot, load_table
from frazil.sources.postgres.pgoutput import Decoder
from frazil.sources.postgres.server import Server, exported_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frazil.sources.postgres.landing import Landing
    from frazil.sources.postgres.server import ServerTable
    from frazil.spec import Table

_PLUGIN: Final = "pgoutput"
_WAL_LEVEL: Final = "logical"
_MOST_LOADS: Final = 5


class Turn:
    """A turn: its session, what is declared, and how far it is."""

    def __init__(
        self, declared: Sequence[Table], url: str, landing: Landing, where: str, progress: Callable[[str], None]
    ) -> None:
        source = declared[0].source
        self._url, self._landing, self._where, self._progress = url, landing, where, progress
        self._slot, self._publication = source.slot, source.publication
        self._names = {table.source.schema_and_name: table.name for table in declared}
        self._all_names = [table.name for table in declared]
        self._keys: dict[tuple[str, str], set[str]] = {}
        for table in declared:
            self._keys.setdefault(table.source.schema_and_name, set()).update(table.keys)
        self._files = self._records = 0

    def land(self, range_bytes: int) -> Landed:
        """Land what the server has now, in ranges of so many bytes of the WAL."""
        with Server(self._url) as self._server:
            if not self._server.lock(self._slot):
                return Landed(busy="another process of Frazil")
            try:
                return self._land(range_bytes)
            except psycopg.errors.ObjectInUse as error:
                return Landed(busy=f"{error}".strip().splitlines()[0])

    def _land(self, range_bytes: int) -> Landed:
        state = self._landing.state()
        system = self._check_server(state)
        tables = self._published(state)
        failpoint("capture.after_publication")
        state = self._with_slot(state, system)
        state = self._with_rows(state, tables)
        moment = time.time()
        target = self._server.flushed()
        budget = range_bytes
        while state.until is not None or state.position < target:
            end = state.until or min(target, state.position + budget)
            before = self._records
            state = self._range(state, end)
            # The range may lie within one transaction, which comes with its end: look further.
            budget = range_bytes if self._records > before else 2 * budget
            self._progress(f"{self._records:,} changes, {max(0, target - state.position):,} bytes to go")
        self._landing.is_level_at(moment)
        return distance(self._server.flushed() - state.position, moment, files=self._files, records=self._records)

    def _check_server(self, state: State | None) -> str:
        """Refuse a server that writes no logical WAL, or another one than before; return which it is."""
        if (level := self._server.one("SHOW wal_level")) != _WAL_LEVEL:
            raise ServerSetupError(
                f"{self._where}: the server runs with wal_level={level}",
                hint="ALTER SYSTEM SET wal_level = 'logical', then restart the server",
            )
        [(system, database)] = self._server.rows(
            "SELECT system_identifier::text, current_database()::text FROM pg_control_system()"
        )
        if state is not None and (state.system, state.database) != (system, database):
            raise self._lost("the landing files are of another server or database, or of one before it was restored")
        return f"{system}"

    def _published(self, state: State | None) -> dict[tuple[str, str], ServerTable]:
        """Return the declared tables as they are published; add those to the publication that are not in it.

        Raises:
            ServerSetupError: a table is not there or must not be published as it is, or the publication leaves changes
                out.
            SlotLostError: a captured table was taken out of the publication.
        """
        made = self._server.rows(_PUBLICATION, self._publication)
        missing = []
        for place in self._names:
            table = self._server.table(place, self._publication)
            if table is None:
                raise ServerSetupError(f"{self._where}: there is no table {'.'.join(place)}")
            self._check_table(table)
            if table.is_partitioned and made and not made[0][1]:
                raise ServerSetupError(
                    f"{self._where}: the changes of {table.full_name} would come under the names of its partitions",
                    hint=f"ALTER PUBLICATION {self._publication} SET (publish_via_partition_root = true)",
                )
            if not table.is_published:
                missing.append(table)
        if made and not made[0][0]:
            raise ServerSetupError(
                f"{self._where}: publication {self._publication} leaves out some kinds of changes",
                hint=f"ALTER PUBLICATION {self._publication} SET (publish = 'insert, update, delete, truncate')",
            )
        if state is not None and (gone := [one.full_name for one in missing if one.full_name in state.tables]):
            raise self._lost(f"{gone[0]} was taken out of publication {self._publication}")
        if missing:
            places = sql.SQL(", ").join(sql.Identifier(table.schema, table.name) for table in missing)
            self._server.tell((_ADD if made else _CREATE).format(sql.Identifier(self._publication), places))
        found = {place: self._server.table(place, self._publication) for place in self._names}
        return {place: table for place, table in found.items() if table is not None}

    def _check_table(self, table: ServerTable) -> None:
        full = f"ALTER TABLE {table.full_name} REPLICA IDENTITY FULL"
        if not table.identity:
            raise ServerSetupError(
                f"{self._where}: {table.full_name} has neither a primary key nor a replica identity; once published, "
                "PostgreSQL would refuse its updates and deletes",
                hint=f"give it a primary key, or: {full}",
            )
        identity = {column.lower() for column in table.identity}
        columns = {column.lower() for column in table.columns}
        keys = {key for key in self._keys[table.schema, table.name] if key.lower() in columns}
        if others := sorted(key for key in keys if key.lower() not in identity):
            raise ServerSetupError(
                f"{self._where}: key '{others[0]}' of table '{self._names[table.schema, table.name]}' is not in the "
                f"replica identity of {table.full_name} ({', '.join(table.identity)}): deletes would not name it",
                hint=f"declare keys of the identity, or: {full}",
            )
        check_columns(table.full_name, table.columns)

    def _with_slot(self, state: State | None, system: str) -> State:
        """Return how far the files reach; make the slot where nothing was captured yet."""
        found = self._server.rows(_SLOT, self._slot)
        if state is None and any(self._landing.loaded_at(*place) is not None for place in self._names):
            raise self._lost(
                f"the landing folder {self._landing.folder} has files, but does not say how far they reach"
            )
        if not found:
            if state is not None:
                raise self._lost("the slot is gone")
            text = self._server.one(
                "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)", self._slot, _PLUGIN
            )
            failpoint("capture.after_slot")
            position = lsn_of(text)
        else:
            plugin, database, is_lost, confirmed = found[0]
            if is_lost:
                raise self._lost("the server has removed WAL that the slot needs (max_slot_wal_keep_size)")
            if plugin != _PLUGIN or database != self._server.session.info.dbname:
                raise ServerSetupError(
                    f"{self._where}: there is such a slot, of plugin {plugin} in database {database}",
                    hint="declare another slot",
                )
            position = lsn_of(confirmed)
        if state is None:
            state = State(system=system, database=self._server.session.info.dbname, position=position)
            self._landing.keep(state)
        elif position > state.position:
            raise self._lost("somebody else has read changes from the slot")
        elif position < state.position:
            self._advance(state.position)
        return state

    def _with_rows(self, state: State, tables: dict[tuple[str, str], ServerTable]) -> State:
        """Land the initial rows of tables that lack them."""
        loaded = {place: self._landing.loaded_at(*place) for place in tables}
        for place, lsn in loaded.items():
            name = tables[place].full_name
            # Its rows may have appeared just before the process died.
            if lsn is not None and name not in state.tables and lsn < state.position:
                raise self._lost(f"{name} was not declared for a time, and its changes of that time are not landed")
        for place in tables:
            self._landing.clear(*place)
        missing = [table for place, table in tables.items() if loaded[place] is None]
        for _ in range(_MOST_LOADS):
            if not missing:
                break
            missing = self._load(missing)
        if missing:
            raise ServerError(
                f"{self._where}: {missing[0].full_name} was emptied or rewritten during each of {_MOST_LOADS} loads",
                hint="run again when nobody does so",
            )
        captured = tuple(sorted(table.full_name for table in tables.values()))
        if state.tables != captured:
            state = replace(state, tables=captured)
            self._landing.keep(state)
        return state

    def _load(self, tables: list[ServerTable]) -> list[ServerTable]:
        """Land initial rows from one snapshot; return the tables that were rewritten meanwhile: they need another."""
        again = []
        read_at = self._server.one(_NOW)
        self._progress("waits for a snapshot: transactions that are open now end first")
        with exported_snapshot(self._url, f"{self._server.session.info.backend_pid}") as (lsn, name):
            domains = self._server.domains()
            snapshot = Snapshot(url=self._url, lsn=lsn, name=name, read_at=read_at, domains=domains)
            for table in tables:
                folder = self._landing.new_load(table.schema, table.name)
                try:
                    self._records += load_table(table, folder, snapshot, self._progress)
                except RewrittenError:
                    self._landing.clear(table.schema, table.name)
                    again.append(table)
                    continue
                self._files += len([*folder.iterdir()])
                failpoint("capture.rows_written")
                self._landing.show_load(folder, lsn)
                failpoint("capture.rows_shown")
        return again

    def _range(self, state: State, end: int) -> State:
        """Land the changes that were committed from the state's position to ``end``."""
        tables = {
            place: TableRange(self._landing.table(*place), self._landing.loaded_at(*place) or 0, self._keys[place])
            for place in self._names
        }
        files = RangeFiles(state.position, end, tables, self._server.domains())
        decoder = Decoder(files)
        try:
            for message in self._server.peek(self._slot, self._publication, end):
                decoder.feed(message)
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            raise self._lost("the server no longer has the WAL that the slot needs") from error
        files.close()
        failpoint("capture.range_written")
        if files.files:
            self._landing.keep(replace(state, until=end))
            failpoint("capture.range_named")
            files.show()
            failpoint("capture.range_shown")
        state = replace(state, position=end, until=None)
        self._landing.keep(state)
        failpoint("capture.before_advance")
        self._advance(end)
        failpoint("capture.after_advance")
        self._files += len(files.files)
        self._records += files.records
        return state

    def _advance(self, position: int) -> None:
        self._server.advance(self._slot, position)

    def _lost(self, why: str) -> SlotLostError:
        names = " ".join(f"--select {name}" for name in self._all_names)
        return SlotLostError(
            f"{self._where}: {why}; changes may be missing",
            hint=f"read the tables again: SELECT pg_drop_replication_slot('{self._slot}') if the slot is there; "
            f"frazil drop {names}; rm -r {self._landing.folder}; frazil run",
        )


def behind(url: str, landing: Landing) -> Lag:
    """Return how far the files are behind the server."""
    with Server(url) as server:
        state = landing.state()
        if state is None:
            return Lag(begun=False)
        found = distance(server.flushed() - state.position, landing.level_at())
    seconds = found.behind_seconds if found.behind_bytes else 0.0
    return Lag(behind_bytes=found.behind_bytes, behind_seconds=seconds)


def distance(behind_bytes: int, level_at: float | None, *, files: int = 0, records: int = 0) -> Landed:
    """Return what a turn brought, and how far behind the files are.

    Args:
        behind_bytes: bytes of the WAL, of other tables and databases too.
        level_at: when nothing was missing; what is missing is younger.
        files: how many were landed.
        records: how many are in them.
    """
    seconds = max(0.0, time.time() - level_at) if behind_bytes > 0 and level_at is not None else None
    return Landed(files=files, records=records, behind_bytes=max(0, behind_bytes), behind_seconds=seconds)


_PUBLICATION: Final = """
SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s"""

_CREATE: Final = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)")
_ADD: Final = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}")

_SLOT: Final = """
SELECT plugin::text, database::text, wal_status = 'lost', confirmed_flush_lsn::text
FROM pg_replication_slots WHERE slot_name = %s"""

_NOW: Final = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
